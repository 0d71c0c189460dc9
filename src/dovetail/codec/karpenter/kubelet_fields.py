"""Fields of the kubelet configuration and their types.

Source: ``KubeletConfiguration`` of ``kubelet.config.k8s.io/v1beta1`` in Kubernetes 1.36
(Go module ``k8s.io/kubelet`` v0.36.6). ``scripts/kubelet-fields`` prints the table for
another version.
"""

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from dovetail.codec.fields import MAX_ERRORS, Field, describe_value
from dovetail.codec.quantities import is_quantity
from dovetail.codec.text.suggestions import suggest

KUBELET_VERSION: Final = "1.36"
_MAX_NAME: Final = 80
"""Length of a field name beyond which no similar name is looked for."""
GO_DURATION: Final = re.compile(r"[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)")
"""Syntax of Go's ``time.ParseDuration``."""

_FIELDS: Final = {
    "string": """
        kind apiVersion staticPodPath podLogsDir staticPodURL address tlsCertFile tlsPrivateKeyFile
        tlsMinVersion authentication.x509.clientCAFile authorization.mode
        imagePullCredentialsVerificationPolicy healthzBindAddress clusterDomain kubeletCgroups
        systemCgroups cgroupRoot cgroupDriver cpuManagerPolicy memoryManagerPolicy topologyManagerPolicy
        topologyManagerScope hairpinMode podCIDR resolvConf contentType memorySwap.swapBehavior
        containerLogMaxSize configMapAndSecretChangeDetectionStrategy reservedSystemCPUs
        showHiddenMetricsForVersion systemReservedCgroup kubeReservedCgroup volumePluginDir providerID
        logging.format logging.vmodule[].filePattern memoryReservationPolicy registerWithTaints[].key
        registerWithTaints[].value registerWithTaints[].effect registerWithTaints[].timeAdded
        tracing.endpoint containerRuntimeEndpoint imageServiceEndpoint
    """,
    "bool": """
        enableServer rotateCertificates serverTLSBootstrap authentication.webhook.enabled
        authentication.anonymous.enabled enableDebuggingHandlers enableContentionProfiling cgroupsPerQOS
        singleProcessOOMKill runOnce cpuCFSQuota serializeImagePulls mergeDefaultEvictionSettings
        enableControllerAttachDetach protectKernelDefaults makeIPTablesUtilChains failSwapOn
        kernelMemcgNotification logging.options.text.splitStream logging.options.json.splitStream
        enableSystemLogHandler enableSystemLogQuery enableProfilingHandler enableDebugFlagsHandler
        seccompDefault registerNode localStorageCapacityIsolation failCgroupV1
    """,
    "duration": """
        syncFrequency fileCheckFrequency httpCheckFrequency authentication.webhook.cacheTTL
        authorization.webhook.cacheAuthorizedTTL authorization.webhook.cacheUnauthorizedTTL
        streamingConnectionIdleTimeout nodeStatusUpdateFrequency nodeStatusReportFrequency
        imageMinimumGCAge imageMaximumGCAge volumeStatsAggPeriod cpuManagerReconcilePeriod
        runtimeRequestTimeout cpuCFSQuotaPeriod evictionPressureTransitionPeriod
        containerLogMonitorInterval shutdownGracePeriod shutdownGracePeriodCriticalPods
        crashLoopBackOff.maxContainerRestartPeriod
    """,
    "int32": """
        port readOnlyPort registryPullQPS registryBurst eventRecordQPS eventBurst healthzPort oomScoreAdj
        nodeLeaseDurationSeconds imageGCHighThresholdPercent imageGCLowThresholdPercent maxPods
        nodeStatusMaxImages kubeAPIQPS kubeAPIBurst maxParallelImagePulls evictionMaxPodGracePeriod
        podsPerCore iptablesMasqueradeBit iptablesDropBit containerLogMaxFiles containerLogMaxWorkers
        shutdownGracePeriodByPodPriority[].priority reservedMemory[].numaNode
        tracing.samplingRatePerMillion
    """,
    "int64": """
        podPidsLimit maxOpenFiles shutdownGracePeriodByPodPriority[].shutdownGracePeriodSeconds
        userNamespaces.idsPerPod
    """,
    "uint32": "logging.verbosity logging.vmodule[].verbosity",
    "float64": "memoryThrottlingFactor",
    "duration|int64": "logging.flushFrequency",
    "quantity": "logging.options.text.infoBufferSize logging.options.json.infoBufferSize",
    "[]string": """
        tlsCipherSuites preloadedImagesVerificationAllowlist clusterDNS enforceNodeAllocatable
        allowedUnsafeSysctls
    """,
    "[]int32": "tlsCurvePreferences",
    "{}string": """
        cpuManagerPolicyOptions topologyManagerPolicyOptions qosReserved evictionHard evictionSoft
        evictionSoftGracePeriod evictionMinimumReclaim systemReserved kubeReserved
    """,
    "{}bool": "featureGates",
    "{}quantity": "reservedMemory[].limits",
    "{}[]string": "staticPodURLHeader",
}
"""Type → paths of fields. ``[]`` is a list of, ``{}`` a map from text to what follows."""

_Struct = dict[str, Any]
"""Field → type (str), struct (dict), or list of structs (a list with one dict)."""


@cache
def kubelet_fields() -> _Struct:
    """Return the fields of the configuration file as a tree."""
    root: _Struct = {}
    for kind, paths in _FIELDS.items():
        for path in paths.split():
            *parents, name = path.split(".")
            struct = root
            for parent in parents:
                if parent.endswith("[]"):
                    struct = struct.setdefault(parent.removesuffix("[]"), [{}])[0]
                else:
                    struct = struct.setdefault(parent, {})
            struct[name] = kind
    return root


def check_struct(field: Field, known: _Struct) -> None:
    """Add an error for each field that the kubelet does not have, or of the wrong type."""
    for name in field.mapping():
        if len(field.context.errors) >= MAX_ERRORS:
            return
        inner = field[name]
        kind = known.get(name)
        if kind is None:
            inner.add_error(
                f"no such field in the kubelet of Kubernetes {KUBELET_VERSION}{_hint(name, known)}"
            )
        elif inner:
            _check_value(inner, kind)


def _hint(name: object, known: _Struct) -> str:
    text = str(name)
    return suggest(text, known) if len(text) <= _MAX_NAME else ""


def _check_value(field: Field, kind: Any) -> None:
    if isinstance(kind, dict):
        check_struct(field, kind)
    elif isinstance(kind, list):
        for item in field.items():
            check_struct(item, kind[0])
    elif kind.startswith("[]"):
        for item in field.items():
            _check_value(item, kind[2:])
    elif kind.startswith("{}"):
        for entry in field.entries():
            _check_value(entry, kind[2:])
    else:
        _CHECKS[kind](field)


def _check_integer(low: int, high: int) -> Callable[[Field], object]:
    return lambda field: field.integer(low=low, high=high)


def _check_duration(field: Field) -> None:
    if not isinstance(field.value, str) or not GO_DURATION.fullmatch(field.value):
        field.add_error(f"must be a duration such as 30s or 1m30s, not {describe_value(field.value)}")


def _check_duration_or_integer(field: Field) -> None:
    if isinstance(field.value, str):
        _check_duration(field)
    else:
        field.integer()


def _check_number(field: Field) -> None:
    value = field.value
    if type(value) not in (int, float) or not math.isfinite(value):
        field.add_error(f"must be a number such as 0.9, not {describe_value(value)}")


def _check_quantity(field: Field) -> None:
    value = field.value
    if type(value) not in (int, float, str) or not is_quantity(str(value)):
        field.add_error(f"must be a quantity such as 100Mi, not {describe_value(value)}")


_CHECKS: Final[dict[str, Callable[[Field], object]]] = {
    "string": Field.text,
    "bool": Field.boolean,
    "int32": _check_integer(-(1 << 31), (1 << 31) - 1),
    "int64": _check_integer(-(1 << 63), (1 << 63) - 1),
    "uint32": _check_integer(0, (1 << 32) - 1),
    "float64": _check_number,
    "duration": _check_duration,
    "duration|int64": _check_duration_or_integer,
    "quantity": _check_quantity,
}
