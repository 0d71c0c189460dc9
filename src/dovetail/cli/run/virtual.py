"""``dovetail virtual``: EC2 and kubelets in memory, for ``dovetail run --cloud virtual``."""

import asyncio
import os
import signal
import sys
from datetime import timedelta

import click

from dovetail.cli.files import attempt
from dovetail.cli.options.catalog import prices_in
from dovetail.cli.options.durations import Duration
from dovetail.data.bundled import bundled_catalog
from dovetail.errors import BadInput, DovetailError, Mistake
from dovetail.host.clock import RealClock
from dovetail.host.log_writer import LEVELS, LineLog
from dovetail.kube.auth.kubeconfig import Access, find_access
from dovetail.operator.virtual.account import USUAL_REGION, AccountSettings
from dovetail.operator.virtual.process import serve


@click.command(epilog="Exit codes: 0 stopped by Ctrl-C or SIGTERM; 1 bad input, or no cluster.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="On 127.0.0.1. Default: a free one."
)
@click.option("--region", default=USUAL_REGION, show_default=True)
@click.option(
    "--boot",
    type=Duration(),
    default="30s",
    show_default=True,
    help="How long a machine takes from running to its kubelet.",
)
@click.option("--prices", metavar="FILE", type=click.Path(), help="A price book in CSV.")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Default: KUBECONFIG, else the pod's own identity, else ~/.kube/config.",
)
@click.option("--context", default="", help="Of the kubeconfig. Default: the current one.")
@click.option("--virtual-anyway", is_flag=True, help="Also where there are real nodes.")
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
def virtual(
    port: int,
    region: str,
    boot: timedelta,
    prices: str | None,
    kubeconfig: str | None,
    context: str,
    virtual_anyway: bool,
    log_level: str,
) -> None:
    """Play EC2, and the kubelets of its machines, for a cluster without nodes.

    Machines that ``dovetail run --cloud virtual --virtual-endpoint URL`` buys here join the
    cluster of the kubeconfig and seem to run its pods. Everything is in memory: when this process
    ends, the machines are gone and their nodes are left behind.
    """
    mistakes: list[Mistake] = []
    clock = RealClock()
    access = attempt(
        mistakes,
        lambda: find_access(kubeconfig, environ=os.environ, clock=clock, context=context),
    )
    book = attempt(mistakes, lambda: prices_in(prices, bundled_catalog()))
    if access is None or book is None:
        raise BadInput(mistakes)
    settings = AccountSettings(region=region, catalog=bundled_catalog(), prices=book, boot=boot)
    log = LineLog(_print, clock=clock, level=log_level)
    asyncio.run(_serve(access, settings, log, port, virtual_anyway))


async def _serve(
    access: Access, settings: AccountSettings, log: LineLog, port: int, anyway: bool
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        await serve(access, settings, log=log, port=port, anyway=anyway, stop=stop)
    except OSError as error:
        raise DovetailError(f"port {port} cannot be used: {error.strerror or error}") from error


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
