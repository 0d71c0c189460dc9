"""``dovetail run``: the controllers in a real cluster."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn

import click

from dovetail.cli.files import attempt, read_bytes
from dovetail.cli.options.discounts import discounts_in
from dovetail.cli.run.options import Given, run_options
from dovetail.codec.catalog.prices import read_prices
from dovetail.controllers.provisioning.batch_window import Windows
from dovetail.core.instancetypes.settings import MachineSettings
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.errors import BadInput, DovetailError, Mistake
from dovetail.host.clock import RealClock
from dovetail.host.executor import Unawaited
from dovetail.host.log_writer import LineLog
from dovetail.kube.auth.kubeconfig import Access, find_access
from dovetail.model.cloud.discounts import NO_DISCOUNTS
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.settings import (
    ConsolidationSettings,
    InterruptionSettings,
    MinValues,
    Preferences,
    SchedulingSettings,
)
from dovetail.observability.http_server import Endpoints, serving
from dovetail.operator.aws import AwsHire, AwsSettings
from dovetail.operator.cloud import Hire
from dovetail.operator.instance_type_refresh import StockSettings
from dovetail.operator.leader import Election, usual_namespace
from dovetail.operator.observability import Instruments
from dovetail.operator.operator import Operation, Settings
from dovetail.operator.virtual.account import USUAL_REGION, AccountSettings
from dovetail.operator.virtual.cloud import VirtualHire, VirtualSettings


@click.command(
    epilog="Exit codes: 0 stopped by SIGTERM or Ctrl-C; 1 bad input, a cluster or account that "
    "cannot be used, or the leader's lease lost; 70 a bug in Dovetail."
)
@run_options
def run(**options: Any) -> None:
    """Run the autoscaler for a cluster, until it is told to stop.

    Buys EC2 instances for pods that wait and gives them back when they are not needed, as the
    cluster's NodePools and EC2NodeClasses say. Logs go to stdout. Of several replicas one
    leads and the others stand by; none works beside Karpenter.
    """
    given = Given(**options)
    mistakes: list[Mistake] = []
    clock = RealClock()
    access = attempt(
        mistakes,
        lambda: find_access(
            given.kubeconfig, environ=os.environ, clock=clock, context=given.context
        ),
    )
    stock = attempt(mistakes, lambda: _stock(given))
    if access is None or stock is None:
        raise BadInput(mistakes)
    hire: Hire = AwsHire(_aws(given, stock))
    if given.cloud == "virtual":
        hire = VirtualHire(access, _virtual(given, stock))
    log = LineLog(_print, clock=clock, level=given.log_level, form=given.log_format)
    try:
        asyncio.run(_operate(given, access, hire, log))
    except BadInput:
        raise
    except DovetailError as error:
        click.echo(f"Error: {error}", err=True)
        _leave(1)
    _leave(0)


def _stock(given: Given) -> StockSettings:
    """Read the files that are named; raises with the mistakes of all."""
    mistakes: list[Mistake] = []
    discounts = attempt(mistakes, lambda: discounts_in(given.discounts))
    prices = attempt(mistakes, lambda: _prices(given.prices))
    if mistakes:
        raise BadInput(mistakes)
    return StockSettings(
        machines=MachineSettings(
            reserved_enis=given.reserved_enis,
            vm_memory_overhead=given.vm_memory_overhead_percent,
            reserved_capacity=given.feature_gates.ReservedCapacity,
        ),
        prices=prices,
        discounts=discounts or NO_DISCOUNTS,
        isolated=given.isolated_vpc,
    )


def _aws(given: Given, stock: StockSettings) -> AwsSettings:
    return AwsSettings(
        cluster_name=given.cluster_name,
        cluster_endpoint=given.cluster_endpoint,
        cluster_ca_bundle=given.cluster_ca_bundle,
        region=given.region,
        interruption_queue=given.interruption_queue,
        isolated_vpc=given.isolated_vpc,
        disable_dry_run=given.disable_dry_run,
        enable_zonal_shift=given.enable_zonal_shift,
        stock=stock,
    )


def _virtual(given: Given, stock: StockSettings) -> VirtualSettings:
    return VirtualSettings(
        cluster_name=given.cluster_name,
        account=AccountSettings(
            region=given.region or USUAL_REGION,
            catalog=bundled_catalog(),
            prices=stock.prices or bundled_prices(),
        ),
        endpoint=given.virtual_endpoint,
        discounts=stock.discounts,
        anyway=given.virtual_anyway,
    )


def _prices(file: str | None) -> PriceBook | None:
    return None if file is None else read_prices(file, read_bytes(file))


def _settings(given: Given) -> Settings:
    return Settings(
        qps=given.kube_client_qps,
        burst=given.kube_client_burst,
        scheduling=SchedulingSettings(
            preferences=Preferences(given.preference_policy),
            min_values=MinValues(given.min_values_policy),
            reserved_capacity=given.feature_gates.ReservedCapacity,
        ),
        windows=Windows(idle=given.batch_idle_duration, longest=given.batch_max_duration),
        interruption=InterruptionSettings(act_on_rebalance=given.act_on_rebalance),
        consolidation=ConsolidationSettings(
            spot_to_spot=given.feature_gates.SpotToSpotConsolidation,
            spot_types=given.spot_to_spot_types,
            balanced_k=given.balanced_threshold,
            min_saving=given.consolidation_min_saving,
            min_saving_per_cost=given.consolidation_min_saving_per_pod,
        ),
        election=_election(given),
        gates=given.feature_gates,
    )


def _election(given: Given) -> Election | None:
    if given.disable_leader_election:
        return None
    namespace = given.leader_election_namespace or usual_namespace(os.environ)
    return Election(name=given.leader_election_name, namespace=namespace)


async def _operate(given: Given, access: Access, hire: Hire, log: LineLog) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(Unawaited())
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    shown = Instruments(RealClock(), each_node=not given.disable_cluster_state_observability)
    endpoints = Endpoints(
        address=given.bind_address,
        metrics_port=given.metrics_port,
        probe_port=given.health_probe_port,
    )
    async with serving(endpoints, scrape=shown.scraping.text, health=shown.health):
        operation = Operation(
            access, hire=hire, settings=_settings(given), log=log, instruments=shown
        )
        await operation.run(stop)


def _print(line: str) -> None:
    # Who no longer reads the log does not stop the work.
    with suppress(OSError, ValueError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _leave(code: int) -> NoReturn:
    """End the process now.

    A call to AWS may still wait in a thread (for a message, up to 20 s), or for a name's
    address, and Python would wait for the thread.
    """
    sys.stdout.flush()
    os._exit(code)
