"""Settings of Karpenter, and their equivalents in Dovetail."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from dovetail.doctor.controller_deployment import Controller, variables
from dovetail.doctor.object_fields import get_list
from dovetail.migration.facts import CheckOption
from dovetail.model.settings import FeatureGates

HELM_VALUES: Final = {
    "CLUSTER_NAME": "settings.clusterName",
    "CLUSTER_ENDPOINT": "settings.clusterEndpoint",
    "CLUSTER_CA_BUNDLE": "settings.clusterCABundle",
    "INTERRUPTION_QUEUE": "settings.interruptionQueue",
    "ISOLATED_VPC": "settings.isolatedVPC",
    "VM_MEMORY_OVERHEAD_PERCENT": "settings.vmMemoryOverheadPercent",
    "RESERVED_ENIS": "settings.reservedENIs",
    "DISABLE_DRY_RUN": "settings.disableDryRun",
    "ENABLE_ZONAL_SHIFT": "settings.enableZonalShift",
    "BATCH_MAX_DURATION": "settings.batchMaxDuration",
    "BATCH_IDLE_DURATION": "settings.batchIdleDuration",
    "PREFERENCE_POLICY": "settings.preferencePolicy",
    "MIN_VALUES_POLICY": "settings.minValuesPolicy",
    "FEATURE_GATES": "settings.featureGates",
    "AWS_FEATURE_GATES": "settings.awsFeatureGates",
    "KUBE_CLIENT_QPS": "settings.kubeClientQPS",
    "KUBE_CLIENT_BURST": "settings.kubeClientBurst",
    "DISABLE_LEADER_ELECTION": "settings.disableLeaderElection",
    "LEADER_ELECTION_NAME": "settings.leaderElectionName",
    "LEADER_ELECTION_NAMESPACE": "settings.leaderElectionNamespace",
    "METRICS_PORT": "controller.metrics.port",
    "HEALTH_PROBE_PORT": "controller.healthProbe.port",
    "DISABLE_CLUSTER_STATE_OBSERVABILITY": "settings.disableClusterStateObservability",
    "LOG_LEVEL": "logLevel",
}
"""Environment variable of both controllers → value of both charts."""
_WITHOUT_EQUIVALENT: Final = {
    "IGNORE_DRA_REQUESTS": ("true", "dynamic resource allocation is not supported"),
    "AMI_REFRESH_INTERVAL": ("1m", "the interval is fixed at one minute"),
    "SUBNET_REFRESH_INTERVAL": ("1m", "the interval is fixed at one minute"),
    "LOG_OUTPUT_PATHS": ("stdout", "logs always go to stdout"),
    "LOG_ERROR_OUTPUT_PATHS": ("stderr", "errors go to stdout"),
    "SCHEDULER_CONFIG": ("", "default spread constraints are not supported"),
    "DISABLE_WEBHOOK": ("true", "there is no conversion webhook"),
    "ENABLE_PROFILING": ("false", "there is no profiling endpoint"),
}
"""Variable → its value without effect, and why another one cannot be carried over."""
_UNNEEDED: Final = frozenset(
    "KUBERNETES_MIN_VERSION KARPENTER_SERVICE SYSTEM_NAMESPACE CPU_REQUESTS MEMORY_LIMIT EKS_CONTROL_PLANE "
    "WEBHOOK_PORT WEBHOOK_METRICS_PORT DISABLE_CONTROLLER_WARMUP".split()
)
"""Variables of Karpenter that Dovetail does not need."""
_SDK: Final = ("AWS_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
"""Prefixes of variables that the AWS SDK reads."""
_MAX_SHOWN: Final = 40
"""Characters of a value in the report."""


class Support(StrEnum):
    """Treatment of a setting by Dovetail."""

    SAME = "same"
    UNNEEDED = "unneeded"
    UNSUPPORTED = "unsupported"
    REJECTED = "rejected"


class MappedSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of the deployed Karpenter."""

    variable: str
    value: str
    """Shortened; empty for variables that may contain credentials."""
    support: Support
    text: str

    @property
    def about(self) -> str:
        """Name and value."""
        return f"{self.variable}={self.value}" if self.value else self.variable


def map_settings(controller: Controller, check_option: CheckOption) -> Iterator[MappedSetting]:
    """Yield each setting of a Deployment with its equivalent."""
    for variable, value in sorted(_settings(controller).items()):
        if variable in _UNNEEDED:
            continue
        if variable == "FEATURE_GATES" and check_option(variable, value) is None:
            yield from _enabled_gates(value)
        else:
            yield _map(variable, value, check_option)


def _settings(controller: Controller) -> Mapping[str, str]:
    """Return variables and options, by the name of the variable; options win."""
    settings = {name: value for name, value in variables(controller.container).items() if value}
    for argument in get_list(controller.container, "args"):
        option, _, _ = str(argument).partition("=")
        if option.startswith("--"):
            variable = option.removeprefix("--").replace("-", "_").upper()
            settings[variable] = controller.setting(variable) or "true"
    return settings


def _map(variable: str, value: str, check_option: CheckOption) -> MappedSetting:
    shown = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}…"
    if variable in HELM_VALUES:
        option = "--" + variable.lower().replace("_", "-")
        error = None if value == "(set)" else check_option(variable, value)
        if error is not None:
            return MappedSetting(variable=variable, value=shown, support=Support.REJECTED, text=error)
        text = f"{option}, {HELM_VALUES[variable]}"
        return MappedSetting(variable=variable, value=shown, support=Support.SAME, text=text)
    if variable in _WITHOUT_EQUIVALENT:
        default, why = _WITHOUT_EQUIVALENT[variable]
        if value.lower() == default.lower():
            return MappedSetting(
                variable=variable, value=shown, support=Support.UNNEEDED, text="the same without it"
            )
        return MappedSetting(variable=variable, value=shown, support=Support.UNSUPPORTED, text=why)
    if variable.startswith(_SDK):
        text = "read by the AWS SDK; kept in controller.env"
        return MappedSetting(variable=variable, value="", support=Support.SAME, text=text)
    text = "no setting of Karpenter 1.0 to 1.14; Dovetail does not read it"
    return MappedSetting(variable=variable, value="", support=Support.UNSUPPORTED, text=text)


def _enabled_gates(value: str) -> Iterator[MappedSetting]:
    for gate in filter(None, (part.strip() for part in value.split(","))):
        name, _, enabled = gate.partition("=")
        if enabled.lower() != "true":
            continue
        is_known = name in FeatureGates.__struct_fields__
        yield MappedSetting(
            variable=f"feature gate {name}",
            value="",
            support=Support.SAME if is_known else Support.UNSUPPORTED,
            text=f"{HELM_VALUES['FEATURE_GATES']}.{name[:1].lower()}{name[1:]}"
            if is_known
            else "Dovetail has no such feature gate",
        )
