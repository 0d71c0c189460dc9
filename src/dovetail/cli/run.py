"""``dovetail run``: the controllers in a real cluster."""

import asyncio
import base64
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from typing import Any, NoReturn
from urllib.parse import urlsplit

import click
import msgspec

from dovetail.cli.discounts import DISCOUNTS_HELP, discounts_in
from dovetail.cli.durations import Duration
from dovetail.cli.files import attempt, read_bytes
from dovetail.codec.prices import read_prices
from dovetail.controllers.batching import Windows
from dovetail.core.machines.settings import MachineSettings
from dovetail.data import bundled_catalog, bundled_prices
from dovetail.errors import BadInput, Mistake
from dovetail.host.clock import RealClock
from dovetail.host.serving import ALL, Endpoints, serving
from dovetail.host.telling import FORMATS, LEVELS, LineLog
from dovetail.kube.config import Access, find_access
from dovetail.kube.lease import LeaseLost
from dovetail.kube.limiting import BURST, QPS
from dovetail.kube.preflight import LEASE
from dovetail.model.discounts import NO_DISCOUNTS
from dovetail.model.prices import PriceBook
from dovetail.model.settings import (
    ConsolidationSettings,
    Gates,
    InterruptionSettings,
    MinValues,
    Preferences,
    SchedulingSettings,
)
from dovetail.running.hiring import Hire
from dovetail.running.instruments import Instruments
from dovetail.running.leading import Election, usual_namespace
from dovetail.running.onaws import AwsHire, AwsSettings
from dovetail.running.operating import Operation, Settings
from dovetail.running.stocking import StockSettings
from dovetail.running.virtual.account import USUAL_REGION, AccountSettings
from dovetail.running.virtual.hiring import VirtualHire, VirtualSettings

_CONSOLIDATION = ConsolidationSettings()
_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What the user chose."""

    cloud: str
    cluster_name: str
    cluster_endpoint: str
    cluster_ca_bundle: str
    region: str | None
    interruption_queue: str
    act_on_rebalance: bool
    isolated_vpc: bool
    vm_memory_overhead_percent: float
    reserved_enis: int
    disable_dry_run: bool
    enable_zonal_shift: bool
    batch_max_duration: timedelta
    batch_idle_duration: timedelta
    preference_policy: str
    min_values_policy: str
    consolidation_min_saving: float
    consolidation_min_saving_per_pod: float
    balanced_threshold: float
    spot_to_spot_types: int
    feature_gates: Gates
    kube_client_qps: float
    kube_client_burst: int
    disable_leader_election: bool
    leader_election_name: str
    leader_election_namespace: str
    bind_address: str
    metrics_port: int
    health_probe_port: int
    disable_cluster_state_observability: bool
    log_level: str
    log_format: str
    kubeconfig: str | None
    context: str
    prices: str | None
    discounts: str | None
    virtual_endpoint: str
    virtual_anyway: bool


def _option(name: str, **more: Any) -> _Decorator:
    """Make an option that can also be given in the environment; the option goes first."""
    variable = name.removeprefix("--").replace("-", "_").upper()
    return click.option(name, envvar=variable, show_envvar=True, **more)


def _yes_or_no(name: str, **more: Any) -> _Decorator:
    """Make an option that is written ``--x``, ``--x=true`` or ``--x=false``."""
    return _option(name, type=bool, is_flag=False, flag_value=True, default=False, **more)


def _choice(name: str, kind: type[StrEnum], default: StrEnum, **more: Any) -> _Decorator:
    values = click.Choice([one.value for one in kind])
    return _option(name, type=values, default=default.value, show_default=True, **more)


def _endpoint(_: click.Context, __: click.Parameter, given: str) -> str:
    if given and not (urlsplit(given).scheme and urlsplit(given).netloc):
        raise click.BadParameter(f"{given!r} is no absolute URL.")
    return given


def _bundle(_: click.Context, __: click.Parameter, given: str) -> str:
    try:
        base64.b64decode(given, validate=True)
    except ValueError:
        raise click.BadParameter("it is no base64 text.") from None
    return given


def _gates(_: click.Context, __: click.Parameter, given: str) -> Gates:
    """Read gates; unknown ones are ignored, so that a chart for another version works."""
    gates: dict[str, bool] = {}
    for one in filter(None, (part.strip() for part in given.split(","))):
        name, _equals, value = one.partition("=")
        if value not in ("true", "false"):
            raise click.BadParameter(f"{one!r} is neither <gate>=true nor <gate>=false.")
        if name in Gates.__struct_fields__:
            gates[name] = value == "true"
    return Gates(**gates)


@click.command(
    epilog="Exit codes: 0 stopped by SIGTERM or Ctrl-C; 1 bad input, a cluster or account that "
    "cannot be used, or the leader's lease lost; 70 a bug in Dovetail."
)
@click.option("--cloud", type=click.Choice(["aws", "virtual"]), default="aws", show_default=True)
@_option("--cluster-name", required=True, help="Tagged on all that is bought; EKS's name of it.")
@_option("--cluster-endpoint", default="", callback=_endpoint, help="Default: EKS is asked.")
@_option(
    "--cluster-ca-bundle",
    default="",
    callback=_bundle,
    help="In base64, for nodes. Default: the API server's.",
)
@click.option(
    "--region",
    envvar=["AWS_REGION", "AWS_DEFAULT_REGION"],
    show_envvar=True,
    help="Default: as AWS's own tools find it.",
)
@_option("--interruption-queue", default="", help="Name of an SQS queue. Default: none is read.")
@_yes_or_no("--act-on-rebalance", help="Replace spot nodes as soon as AWS recommends it.")
@_yes_or_no("--isolated-vpc", help="IAM cannot be reached from here.")
@_option(
    "--vm-memory-overhead-percent",
    type=click.FloatRange(0, 1),
    default=0.075,
    show_default=True,
    help="Share of an instance's memory that the node does not see.",
)
@_option(
    "--reserved-enis",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Network interfaces that pods cannot use.",
)
@_yes_or_no("--disable-dry-run", help="Do not try launches before an EC2NodeClass is ready.")
@_yes_or_no("--enable-zonal-shift", help="Buy nothing in zones that EKS is shifted away from.")
@_option(
    "--batch-max-duration",
    type=Duration(),
    default="10s",
    show_default=True,
    help="Pods wait this long for others at most.",
)
@_option(
    "--batch-idle-duration",
    type=Duration(),
    default="1s",
    show_default=True,
    help="Pods are decided on when no other has come for this long.",
)
@_choice("--preference-policy", Preferences, Preferences.RESPECT, help="Whether wishes count.")
@_choice(
    "--min-values-policy", MinValues, MinValues.STRICT, help="Whether minValues may be undercut."
)
@_option(
    "--consolidation-min-saving",
    type=click.FloatRange(0),
    default=_CONSOLIDATION.min_saving,
    show_default=True,
    help="USD per hour that moving pods must save at least.",
)
@_option(
    "--consolidation-min-saving-per-pod",
    type=click.FloatRange(0),
    default=_CONSOLIDATION.min_saving_per_cost,
    show_default=True,
    help="USD per hour that must be saved for each pod that moves.",
)
@_option(
    "--balanced-threshold",
    type=click.FloatRange(0, min_open=True),
    default=_CONSOLIDATION.balanced_k,
    show_default=True,
    help="Policy Balanced: how many times its share of savings a move may disrupt.",
)
@_option(
    "--spot-to-spot-types",
    type=click.IntRange(1),
    default=_CONSOLIDATION.spot_types,
    show_default=True,
    help="Cheaper types that must be there before a spot node is replaced by spot.",
)
@_option(
    "--feature-gates",
    default="",
    callback=_gates,
    metavar="GATE=BOOL,...",
    help="ReservedCapacity (true); NodeRepair, SpotToSpotConsolidation, NodeOverlay, "
    "StaticCapacity, CapacityBuffer (false).",
)
@_option(
    "--kube-client-qps",
    type=click.FloatRange(1),
    default=QPS,
    show_default=True,
    help="Requests a second to the API server.",
)
@_option(
    "--kube-client-burst",
    type=click.IntRange(1),
    default=BURST,
    show_default=True,
    help="Requests that may come at once.",
)
@_yes_or_no("--disable-leader-election", help="There is only one replica, for sure.")
@_option(
    "--leader-election-name",
    default=LEASE,
    show_default=True,
    help="Of the Lease that the leader of several replicas holds.",
)
@_option(
    "--leader-election-namespace",
    default="",
    help="Of the Lease. Default: SYSTEM_NAMESPACE, else the pod's own, else kube-system.",
)
@_option(
    "--bind-address",
    default=Endpoints().address,
    show_default=True,
    help=f"Where the ports below are listened on; '{ALL}': everywhere.",
)
@_option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    default=Endpoints().metrics_port,
    show_default=True,
    help="Of /metrics; 0: none.",
)
@_option(
    "--health-probe-port",
    type=click.IntRange(0, 65535),
    default=Endpoints().probe_port,
    show_default=True,
    help="Of /healthz and /readyz; 0: none.",
)
@_yes_or_no("--disable-cluster-state-observability", help="No metrics of single nodes.")
@_option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
@_option("--log-format", type=click.Choice(list(FORMATS)), default="json", show_default=True)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Default: KUBECONFIG, else the pod's own identity, else ~/.kube/config.",
)
@click.option("--context", default="", help="Of the kubeconfig. Default: the current one.")
@click.option("--prices", metavar="FILE", help="A price book in CSV, for what AWS does not tell.")
@click.option("--discounts", metavar="FILE", help=DISCOUNTS_HELP)
@click.option(
    "--virtual-endpoint",
    default="",
    callback=_endpoint,
    help="With --cloud virtual: what `dovetail virtual` says. Default: one that ends with us.",
)
@click.option("--virtual-anyway", is_flag=True, help="Also where there are real nodes.")
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
    except LeaseLost as error:
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

    A call to AWS may still wait in a thread (for a message, up to 20 s), and Python
    would wait for the thread.
    """
    os._exit(code)
