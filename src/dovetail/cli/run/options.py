"""Options of ``dovetail run``, each with an environment variable of the same name."""

import base64
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlsplit

import click
import msgspec

from dovetail.cli.options.burstable import BURSTABLE_HELP, DEFAULT_MIN_MEMORY, MIN_MEMORY_HELP, MemoryAmount
from dovetail.cli.options.discounts import DISCOUNTS_HELP
from dovetail.cli.options.durations import Duration
from dovetail.cli.options.feature_gates import GATES_HELP, lenient_gates
from dovetail.cli.options.node_cost import (
    DEFAULT_TOLERANCE,
    NODE_COST,
    NODE_COST_HELP,
    TOLERANCE,
    TOLERANCE_HELP,
)
from dovetail.cli.options.policy import POLICY_HELP, POLICY_METAVAR
from dovetail.core.disruption.policy import DEFAULT_POLICY
from dovetail.host.log_writer import FORMATS, LEVELS
from dovetail.kube.leaderelection.lease import DEFAULT_TIMING
from dovetail.kube.preflight import KARPENTER_LEASE
from dovetail.kube.rate_limit import DEFAULT_BURST, DEFAULT_QPS
from dovetail.model.cloud.cpu_credits import BurstablePolicy
from dovetail.model.settings import ConsolidationSettings, FeatureGates, MinValuesPolicy, PreferencePolicy
from dovetail.observability.http_server import ALL, Endpoints

_CONSOLIDATION = ConsolidationSettings()
_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Values of all options, by the name of the option."""

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
    scheduling_timeout: timedelta
    preference_policy: str
    min_values_policy: str
    burstable: str
    min_node_memory: int
    node_cost: float | None
    fewer_nodes_tolerance: float
    consolidation_min_saving: float
    consolidation_min_saving_per_pod: float
    consolidation_min_saving_share: float
    balanced_threshold: float
    spot_to_spot_types: int
    policy: str
    feature_gates: FeatureGates
    aws_feature_gates: FeatureGates
    kube_client_qps: float
    kube_client_burst: int
    disable_leader_election: bool
    leader_election_name: str
    leader_election_namespace: str
    leader_election_lease_seconds: int
    bind_address: str
    metrics_port: int
    health_probe_port: int
    dashboard_port: int
    dashboard_token_file: str | None
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
    """Return an option with an environment variable; the option takes precedence."""
    variable = name.removeprefix("--").replace("-", "_").upper()
    return click.option(name, envvar=variable, show_envvar=True, **more)


def _value(name: str, kind: click.ParamType[Any], default: Any, help_text: str | None = None) -> _Decorator:
    """Return an option whose help shows its default."""
    return _option(name, type=kind, default=default, show_default=True, help=help_text)


def _flag(name: str, help_text: str) -> _Decorator:
    """Return an option that is written ``--x``, ``--x=true`` or ``--x=false``."""
    return _option(name, type=bool, is_flag=False, flag_value=True, default=False, help=help_text)


def _choice(name: str, kind: type[StrEnum], default: StrEnum, help_text: str) -> _Decorator:
    return _value(name, click.Choice([member.value for member in kind]), default.value, help_text)


def _check_url(_: click.Context, __: click.Parameter, value: str) -> str:
    if value and not (urlsplit(value).scheme and urlsplit(value).netloc):
        raise click.BadParameter(f"{value!r} is not an absolute URL.")
    return value


def _check_base64(_: click.Context, __: click.Parameter, value: str) -> str:
    try:
        base64.b64decode(value, validate=True)
    except ValueError:
        raise click.BadParameter("the value is not base64.") from None
    return value


_PORT: Final = click.IntRange(0, 65535)

_OPTIONS: Final[tuple[_Decorator, ...]] = (
    click.option("--cloud", type=click.Choice(["aws", "virtual"]), default="aws", show_default=True),
    _option("--cluster-name", required=True, help="Name of the EKS cluster; also a tag of all instances."),
    _option("--cluster-endpoint", default="", callback=_check_url, help="API server URL. Default: from EKS."),
    _option(
        "--cluster-ca-bundle",
        default="",
        callback=_check_base64,
        help="CA bundle for nodes, in base64. Default: that of the API server.",
    ),
    click.option(
        "--region",
        envvar=["AWS_REGION", "AWS_DEFAULT_REGION"],
        show_envvar=True,
        help="Default: the region of the AWS profile.",
    ),
    _option("--interruption-queue", default="", help="Name of the SQS queue. Default: no queue."),
    _flag("--act-on-rebalance", "Replace spot nodes as soon as AWS recommends it."),
    _flag("--isolated-vpc", "The VPC has no access to IAM and pricing endpoints."),
    _value(
        "--vm-memory-overhead-percent",
        click.FloatRange(0, 1),
        0.075,
        "Fraction of an instance's memory that is not available to the node.",
    ),
    _value("--reserved-enis", click.IntRange(0), 0, "Network interfaces that pods cannot use."),
    _flag("--disable-dry-run", "Do not make dry runs before an EC2NodeClass becomes ready."),
    _flag("--enable-zonal-shift", "Launch nothing in zones that EKS has shifted away from."),
    _value("--batch-max-duration", Duration(), "3s", "Maximum time to collect pending pods."),
    _value("--batch-idle-duration", Duration(), "1s", "Schedule once no new pod has arrived for this long."),
    _value("--scheduling-timeout", Duration(), "10s", "Time for one plan; the next one continues."),
    _choice(
        "--preference-policy",
        PreferencePolicy,
        PreferencePolicy.RESPECT,
        "Whether preferred affinities and spread constraints count.",
    ),
    _choice(
        "--min-values-policy",
        MinValuesPolicy,
        MinValuesPolicy.STRICT,
        "Whether fewer values than minValues are allowed.",
    ),
    _choice("--burstable", BurstablePolicy, BurstablePolicy.BASELINE, BURSTABLE_HELP),
    _value("--min-node-memory", MemoryAmount(), DEFAULT_MIN_MEMORY, MIN_MEMORY_HELP),
    _option("--node-cost", type=NODE_COST, help=NODE_COST_HELP),
    _value("--fewer-nodes-tolerance", TOLERANCE, DEFAULT_TOLERANCE, TOLERANCE_HELP),
    _value(
        "--consolidation-min-saving",
        click.FloatRange(0),
        _CONSOLIDATION.min_saving,
        "Minimum saving of a consolidation that moves pods, USD per hour.",
    ),
    _value(
        "--consolidation-min-saving-per-pod",
        click.FloatRange(0),
        _CONSOLIDATION.min_saving_per_pod,
        "Minimum saving per pod that moves, USD per hour.",
    ),
    _value(
        "--consolidation-min-saving-share",
        click.FloatRange(0, 10),
        _CONSOLIDATION.min_saving_share,
        "Minimum saving as a share of what the pods that move cost; 0: any, as Karpenter.",
    ),
    _value(
        "--balanced-threshold",
        click.FloatRange(0, min_open=True),
        _CONSOLIDATION.balanced_k,
        "Policy Balanced: maximum ratio of a command's share of disruption to its share of savings.",
    ),
    _value(
        "--spot-to-spot-types",
        click.IntRange(1),
        _CONSOLIDATION.min_spot_types,
        "Minimum number of cheaper types to replace a spot node by spot.",
    ),
    click.option(
        "--policy",
        envvar="CONSOLIDATION_POLICY",
        show_envvar=True,
        default=DEFAULT_POLICY.name,
        show_default=True,
        metavar=POLICY_METAVAR,
        help=POLICY_HELP,
    ),
    _option("--feature-gates", default="", callback=lenient_gates, metavar="GATE=BOOL,...", help=GATES_HELP),
    _option(
        "--aws-feature-gates",
        default="",
        callback=lenient_gates,
        metavar="GATE=BOOL,...",
        help="Karpenter's name of --feature-gates for NodeClassCEL.",
    ),
    _value("--kube-client-qps", click.FloatRange(1), DEFAULT_QPS, "Requests per second to the API server."),
    _value("--kube-client-burst", click.IntRange(1), DEFAULT_BURST, "Maximum burst of requests."),
    _flag("--disable-leader-election", "Only for a single replica."),
    _value("--leader-election-name", click.STRING, KARPENTER_LEASE, "Name of the leader's Lease."),
    _option(
        "--leader-election-namespace",
        default="",
        help="Namespace of the Lease. Default: SYSTEM_NAMESPACE, else that of the pod, else kube-system.",
    ),
    _value(
        "--leader-election-lease-seconds",
        click.IntRange(5, 60),
        round(DEFAULT_TIMING.lease_duration),
        "Duration of the Lease: after a crash of the leader, another replica leads that much later.",
    ),
    _value(
        "--bind-address",
        click.STRING,
        Endpoints().address,
        f"Address of the ports below; '{ALL}' for all interfaces.",
    ),
    _value("--metrics-port", _PORT, Endpoints().metrics_port, "Port of /metrics; 0 for none."),
    _value("--health-probe-port", _PORT, Endpoints().probe_port, "Port of /healthz and /readyz; 0 for none."),
    _value("--dashboard-port", _PORT, 0, "Port of the dashboard, always on 127.0.0.1; 0 for none."),
    _option("--dashboard-token-file", metavar="FILE", help="Token for the dashboard; may be rotated."),
    _flag("--disable-cluster-state-observability", "No metrics of individual nodes."),
    _value("--log-level", click.Choice(LEVELS), "info"),
    _value("--log-format", click.Choice(list(FORMATS)), "json"),
    click.option(
        "--kubeconfig",
        metavar="FILE",
        help="Default: KUBECONFIG, else the pod's service account, else ~/.kube/config.",
    ),
    click.option("--context", default="", help="Context of the kubeconfig. Default: the current one."),
    click.option(
        "--prices", metavar="FILE", help="A price book in CSV, for prices that AWS does not publish."
    ),
    click.option("--discounts", metavar="FILE", help=DISCOUNTS_HELP),
    click.option(
        "--virtual-endpoint",
        default="",
        callback=_check_url,
        help="With --cloud virtual: URL of `dovetail virtual`. Default: in this process.",
    ),
    click.option("--virtual-anyway", is_flag=True, help="Also in a cluster with real nodes."),
)
"""In the order of the help."""


def add_run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add all options to a command; their values are the fields of ``RunOptions``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
