"""``dovetail virtual``: EC2 and kubelets in memory, for ``run --cloud virtual``."""

import asyncio
import os
import sys
from datetime import timedelta

import click

from dovetail.cli.files import attempt
from dovetail.cli.options.catalog import prices_in
from dovetail.cli.options.durations import Duration
from dovetail.cli.options.feature_gates import strict_gates
from dovetail.cli.signals import stop_event
from dovetail.data.bundled import bundled_catalog
from dovetail.errors import DovetailError, InvalidInputError, ValidationError
from dovetail.host.clock import SystemClock
from dovetail.host.log_writer import LEVELS, LineLog
from dovetail.kube.auth.kubeconfig import RestConfig, load_rest_config
from dovetail.model.settings import FeatureGates
from dovetail.operator.virtual.account import DEFAULT_REGION, AccountSettings
from dovetail.operator.virtual.process import serve_account


@click.command(epilog="Exit codes: 0 stopped by Ctrl-C or SIGTERM; 1 bad input, or no cluster.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1. Default: a free one."
)
@click.option("--region", default=DEFAULT_REGION, show_default=True)
@click.option(
    "--boot",
    type=Duration(),
    default="30s",
    show_default=True,
    help="Time from a running instance to its kubelet.",
)
@click.option("--prices", metavar="FILE", type=click.Path(), help="A price book in CSV.")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Default: KUBECONFIG, else the pod's service account, else ~/.kube/config.",
)
@click.option("--context", default="", help="Context of the kubeconfig. Default: the current one.")
@click.option(
    "--feature-gates",
    default="",
    callback=strict_gates,
    metavar="GATE=BOOL,...",
    help="NodeClassCEL (false): evaluate expressions in kubelet settings.",
)
@click.option("--virtual-anyway", is_flag=True, help="Also in a cluster with real nodes.")
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
def virtual(
    port: int,
    region: str,
    boot: timedelta,
    prices: str | None,
    kubeconfig: str | None,
    context: str,
    feature_gates: FeatureGates,
    virtual_anyway: bool,
    log_level: str,
) -> None:
    """Simulate EC2 and the kubelets of its instances, for a cluster without nodes.

    ``dovetail run --cloud virtual --virtual-endpoint URL`` launches its instances here. They join
    the cluster of the kubeconfig and report its pods as running. Everything is in memory: when
    this process ends, the instances are gone and their Nodes are left behind.
    """
    errors: list[ValidationError] = []
    clock = SystemClock()
    access = attempt(
        errors, lambda: load_rest_config(kubeconfig, environ=os.environ, clock=clock, context=context)
    )
    book = attempt(errors, lambda: prices_in(prices, bundled_catalog()))
    if access is None or book is None:
        raise InvalidInputError(errors)
    settings = AccountSettings(
        region=region,
        catalog=bundled_catalog(),
        prices=book,
        boot_time=boot,
        kubelet_expressions=feature_gates.NodeClassCEL,
    )
    log = LineLog(_print, clock=clock, level=log_level)
    asyncio.run(_serve(access, settings, log, port, virtual_anyway))


async def _serve(
    access: RestConfig, settings: AccountSettings, log: LineLog, port: int, anyway: bool
) -> None:
    try:
        await serve_account(access, settings, log=log, port=port, allow_real_nodes=anyway, stop=stop_event())
    except OSError as error:
        raise DovetailError(f"port {port} cannot be used: {error.strerror or error}") from error


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
