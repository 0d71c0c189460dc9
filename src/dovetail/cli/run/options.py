"""What ``dovetail run`` can be told: every option, and the variable of the same name."""

import base64
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlsplit

import click
import msgspec

from dovetail.cli.options.discounts import DISCOUNTS_HELP
from dovetail.cli.options.durations import Duration
from dovetail.cli.options.feature_gates import GATES_HELP, lenient_gates
from dovetail.host.log_writer import FORMATS, LEVELS
from dovetail.kube.preflight import LEASE
from dovetail.kube.rate_limit import BURST, QPS
from dovetail.model.settings import ConsolidationSettings, Gates, MinValues, Preferences
from dovetail.observability.http_server import ALL, Endpoints

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


_OPTIONS: Final[tuple[_Decorator, ...]] = (
    click.option(
        "--cloud", type=click.Choice(["aws", "virtual"]), default="aws", show_default=True
    ),
    _option(
        "--cluster-name", required=True, help="Tagged on all that is bought; EKS's name of it."
    ),
    _option("--cluster-endpoint", default="", callback=_endpoint, help="Default: EKS is asked."),
    _option(
        "--cluster-ca-bundle",
        default="",
        callback=_bundle,
        help="In base64, for nodes. Default: the API server's.",
    ),
    click.option(
        "--region",
        envvar=["AWS_REGION", "AWS_DEFAULT_REGION"],
        show_envvar=True,
        help="Default: as AWS's own tools find it.",
    ),
    _option(
        "--interruption-queue", default="", help="Name of an SQS queue. Default: none is read."
    ),
    _yes_or_no("--act-on-rebalance", help="Replace spot nodes as soon as AWS recommends it."),
    _yes_or_no("--isolated-vpc", help="IAM cannot be reached from here."),
    _option(
        "--vm-memory-overhead-percent",
        type=click.FloatRange(0, 1),
        default=0.075,
        show_default=True,
        help="Share of an instance's memory that the node does not see.",
    ),
    _option(
        "--reserved-enis",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Network interfaces that pods cannot use.",
    ),
    _yes_or_no("--disable-dry-run", help="Do not try launches before an EC2NodeClass is ready."),
    _yes_or_no("--enable-zonal-shift", help="Buy nothing in zones that EKS is shifted away from."),
    _option(
        "--batch-max-duration",
        type=Duration(),
        default="10s",
        show_default=True,
        help="Pods wait this long for others at most.",
    ),
    _option(
        "--batch-idle-duration",
        type=Duration(),
        default="1s",
        show_default=True,
        help="Pods are decided on when no other has come for this long.",
    ),
    _choice("--preference-policy", Preferences, Preferences.RESPECT, help="Whether wishes count."),
    _choice(
        "--min-values-policy",
        MinValues,
        MinValues.STRICT,
        help="Whether minValues may be undercut.",
    ),
    _option(
        "--consolidation-min-saving",
        type=click.FloatRange(0),
        default=_CONSOLIDATION.min_saving,
        show_default=True,
        help="USD per hour that moving pods must save at least.",
    ),
    _option(
        "--consolidation-min-saving-per-pod",
        type=click.FloatRange(0),
        default=_CONSOLIDATION.min_saving_per_cost,
        show_default=True,
        help="USD per hour that must be saved for each pod that moves.",
    ),
    _option(
        "--balanced-threshold",
        type=click.FloatRange(0, min_open=True),
        default=_CONSOLIDATION.balanced_k,
        show_default=True,
        help="Policy Balanced: how many times its share of savings a move may disrupt.",
    ),
    _option(
        "--spot-to-spot-types",
        type=click.IntRange(1),
        default=_CONSOLIDATION.spot_types,
        show_default=True,
        help="Cheaper types that must be there before a spot node is replaced by spot.",
    ),
    _option(
        "--feature-gates",
        default="",
        callback=lenient_gates,
        metavar="GATE=BOOL,...",
        help=GATES_HELP,
    ),
    _option(
        "--kube-client-qps",
        type=click.FloatRange(1),
        default=QPS,
        show_default=True,
        help="Requests a second to the API server.",
    ),
    _option(
        "--kube-client-burst",
        type=click.IntRange(1),
        default=BURST,
        show_default=True,
        help="Requests that may come at once.",
    ),
    _yes_or_no("--disable-leader-election", help="There is only one replica, for sure."),
    _option(
        "--leader-election-name",
        default=LEASE,
        show_default=True,
        help="Of the Lease that the leader of several replicas holds.",
    ),
    _option(
        "--leader-election-namespace",
        default="",
        help="Of the Lease. Default: SYSTEM_NAMESPACE, else the pod's own, else kube-system.",
    ),
    _option(
        "--bind-address",
        default=Endpoints().address,
        show_default=True,
        help=f"Where the ports below are listened on; '{ALL}': everywhere.",
    ),
    _option(
        "--metrics-port",
        type=click.IntRange(0, 65535),
        default=Endpoints().metrics_port,
        show_default=True,
        help="Of /metrics; 0: none.",
    ),
    _option(
        "--health-probe-port",
        type=click.IntRange(0, 65535),
        default=Endpoints().probe_port,
        show_default=True,
        help="Of /healthz and /readyz; 0: none.",
    ),
    _yes_or_no("--disable-cluster-state-observability", help="No metrics of single nodes."),
    _option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True),
    _option("--log-format", type=click.Choice(list(FORMATS)), default="json", show_default=True),
    click.option(
        "--kubeconfig",
        metavar="FILE",
        help="Default: KUBECONFIG, else the pod's own identity, else ~/.kube/config.",
    ),
    click.option("--context", default="", help="Of the kubeconfig. Default: the current one."),
    click.option(
        "--prices", metavar="FILE", help="A price book in CSV, for what AWS does not tell."
    ),
    click.option("--discounts", metavar="FILE", help=DISCOUNTS_HELP),
    click.option(
        "--virtual-endpoint",
        default="",
        callback=_endpoint,
        help="With --cloud virtual: what `dovetail virtual` says. Default: one that ends with us.",
    ),
    click.option("--virtual-anyway", is_flag=True, help="Also where there are real nodes."),
)
"""In the order in which help shows them."""


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command every option of ``run``; ``Given`` takes what it is called with."""
    for one in reversed(_OPTIONS):
        command = one(command)
    return command
