"""Decoder, encoder and validation of the kubelet settings of an EC2NodeClass."""

import re
from collections.abc import Mapping
from typing import Any, Final

from dovetail.codec.fields import MAX_INT32, Field
from dovetail.codec.karpenter.kubelet_fields import check_struct, kubelet_fields
from dovetail.codec.quantities import decode_crd_resources, is_quantity
from dovetail.codec.text.suggestions import suggest
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import KubeletConfiguration
from dovetail.model.karpenter.kubelet_expressions import (
    MAX_LENGTH,
    MAX_PODS,
    ExpressionError,
    check_expression,
)
from dovetail.model.kube.resources import Resources

_DECODED: Final = (
    "clusterDNS maxPods podsPerCore systemReserved kubeReserved evictionHard evictionSoft "
    "evictionSoftGracePeriod evictionMaxPodGracePeriod imageGCHighThresholdPercent "
    "imageGCLowThresholdPercent cpuCFSQuota"
).split()
"""Fields with a meaning in Dovetail; others are passed on."""
PERCENTAGE = re.compile(r"(100(\.0+)?|[0-9]{1,2}(\.[0-9]+)?)%")
GRACE_PERIOD = re.compile(r"([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+|0")
"""Go duration without a sign, as the CRD has it."""
RESERVABLE_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pid")
EVICTION_SIGNALS = (
    "memory.available nodefs.available nodefs.inodesFree imagefs.available imagefs.inodesFree pid.available"
).split()
AMOUNT: Final = re.compile(r"\s*[-+]?[0-9.]+([eE][-+]?[0-9]+)?[A-Za-z]*\s*")
"""A number with an optional unit, valid or not: never an expression."""
_MAX_DEPTH: Final = 16
_MAX_PODS: Final = "maxPods"
_KUBE_RESERVED: Final = "kubeReserved"
_SYSTEM_RESERVED: Final = "systemReserved"
_REGISTER_WITH_TAINTS: Final = "registerWithTaints"
_MINIMUM_RECLAIM: Final = "evictionMinimumReclaim"


def decode_kubelet(field: Field) -> KubeletConfiguration:
    """Decode kubelet settings.

    Settings in files are checked like those of node classes in a cluster. The API
    server, in contrast, accepts fields that the kubelet does not have.
    """
    if not field:
        return KubeletConfiguration()
    expressions = _decode_expressions(field)
    for path, expression in expressions.items():
        if len(expression) > MAX_LENGTH:
            inner = field.at(*path.split(".", 1))
            inner.add_error(f"has {len(expression):,} characters; at most {MAX_LENGTH:,} are allowed")
    if field.context.strict and not field.context.api_rules_only:
        check_kubelet_fields(field)
        _check_expressions(field, expressions)
    return KubeletConfiguration(
        max_pods=None if _MAX_PODS in expressions else field[_MAX_PODS].integer(low=0, high=MAX_PODS),
        pods_per_core=field["podsPerCore"].integer(low=0, high=MAX_INT32),
        kube_reserved=_decode_reserved(field[_KUBE_RESERVED]),
        system_reserved=_decode_reserved(field[_SYSTEM_RESERVED]),
        eviction_hard=_decode_eviction_thresholds(field["evictionHard"]),
        eviction_soft=_decode_eviction_thresholds(field["evictionSoft"]),
        eviction_soft_grace=_decode_grace_periods(field["evictionSoftGracePeriod"]),
        eviction_max_pod_grace=field["evictionMaxPodGracePeriod"].integer(low=-MAX_INT32 - 1, high=MAX_INT32),
        cluster_dns=field["clusterDNS"].texts(),
        image_gc_high=field["imageGCHighThresholdPercent"].integer(low=0, high=100),
        image_gc_low=field["imageGCLowThresholdPercent"].integer(low=0, high=100),
        cpu_cfs_quota=field["cpuCFSQuota"].boolean() if field["cpuCFSQuota"] else None,
        others=FrozenDict(
            {name: _freeze(value) for name, value in field.mapping().items() if name not in _DECODED}
        ),
        expressions=expressions,
    )


def _decode_expressions(field: Field) -> FrozenDict[str, str]:
    """Return the expressions: ``maxPods`` as text, reservations that are no amounts."""
    expressions: dict[str, str] = {}
    if isinstance(field[_MAX_PODS].value, str):
        expressions[_MAX_PODS] = field[_MAX_PODS].value
    for name in (_KUBE_RESERVED, _SYSTEM_RESERVED):
        reserved = field[name]
        for resource in RESERVABLE_RESOURCES:
            if _is_expression(reserved[resource].value):
                expressions[f"{name}.{resource}"] = reserved[resource].value
    return FrozenDict(expressions)


def _is_expression(value: object) -> bool:
    return isinstance(value, str) and not AMOUNT.fullmatch(value) and not value.startswith("-")


def _check_expressions(field: Field, expressions: Mapping[str, str]) -> None:
    for path, expression in expressions.items():
        inner = field.at(*path.split(".", 1))
        try:
            check_expression(expression)
        except ExpressionError as error:
            inner.add_error(str(error))
            continue
        if not field.context.kubelet_expressions:
            number = f"; for a number write {expression}, without quotes" if expression.isdecimal() else ""
            inner.add_error(
                f"{expression!r} is an expression, which needs the feature gate NodeClassCEL: "
                f"--feature-gates NodeClassCEL=true{number}"
            )


def _decode_reserved(field: Field) -> Resources:
    amounts = {name: value for name, value in field.mapping().items() if not _is_expression(value)}
    for name in field.mapping():
        if name not in RESERVABLE_RESOURCES:
            hint = suggest(str(name), RESERVABLE_RESOURCES)
            field[name].add_error(f"{name!r} cannot be reserved{hint}")
    return decode_crd_resources(Field(amounts, field.context, field.parent, field.key))


def check_kubelet_fields(field: Field) -> None:
    """Add errors for settings that the kubelet does not have or would not accept.

    The API server cannot check them: the CRD leaves ``spec.kubelet`` open for fields of
    every kubelet version.
    """
    others = {name: value for name, value in field.mapping().items() if name not in _DECODED}
    check_struct(Field(others, field.context, field.parent, field.key), kubelet_fields())
    if _REGISTER_WITH_TAINTS in others:
        field[_REGISTER_WITH_TAINTS].add_error("cannot be set here; write taints in the NodePool")
    if isinstance(others.get(_MINIMUM_RECLAIM), dict):
        _decode_eviction_thresholds(field[_MINIMUM_RECLAIM])
    field["evictionMaxPodGracePeriod"].integer(low=0)


def check_kubelet_rules(field: Field) -> None:
    """Add errors for settings that contradict each other."""
    high = field["imageGCHighThresholdPercent"].integer(low=0, high=100)
    low = field["imageGCLowThresholdPercent"].integer(low=0, high=100)
    if high is not None and low is not None and high <= low:
        field["imageGCHighThresholdPercent"].add_error("must be more than imageGCLowThresholdPercent")
    soft = field["evictionSoft"].mapping()
    grace = field["evictionSoftGracePeriod"].mapping()
    for name in sorted(soft.keys() - grace.keys()):
        field["evictionSoft"][name].add_error("has no evictionSoftGracePeriod")
    for name in sorted(grace.keys() - soft.keys()):
        field["evictionSoftGracePeriod"][name].add_error("has no evictionSoft")


def _decode_eviction_thresholds(field: Field) -> FrozenDict[str, str]:
    read = field.labels()
    for entry in field.entries():
        value = read.get(str(entry.key), "")
        if entry.key not in EVICTION_SIGNALS:
            hint = suggest(str(entry.key), EVICTION_SIGNALS)
            entry.add_error(f"{entry.key!r} is not an eviction signal{hint}")
        elif not (PERCENTAGE.fullmatch(value) or is_quantity(value)):
            entry.add_error(f"{value!r} is neither a quantity nor a percentage such as '5%'")
    return read


def _decode_grace_periods(field: Field) -> FrozenDict[str, str]:
    read = field.labels()
    for entry in field.entries():
        if not GRACE_PERIOD.fullmatch(read.get(str(entry.key), "")):
            entry.add_error(f"{entry.value!r} is not a duration; write it as in 30s or 1m30s")
    return read


def encode_kubelet(kubelet: KubeletConfiguration) -> dict[str, Any]:
    """Encode kubelet settings with the kubelet's field names."""
    expressions: dict[str, dict[str, str]] = {_KUBE_RESERVED: {}, _SYSTEM_RESERVED: {}}
    for path, expression in kubelet.expressions.items():
        name, _, resource = path.partition(".")
        if resource:
            expressions[name][resource] = expression
    reserved = {
        _KUBE_RESERVED: kubelet.kube_reserved.to_quantities(),
        _SYSTEM_RESERVED: kubelet.system_reserved.to_quantities(),
    }
    encoded: dict[str, Any] = {
        _MAX_PODS: kubelet.expressions.get(_MAX_PODS, kubelet.max_pods),
        "podsPerCore": kubelet.pods_per_core,
        **{name: {**reserved[name], **expressions[name]} or None for name in reserved},
        "evictionHard": dict(kubelet.eviction_hard) or None,
        "evictionSoft": dict(kubelet.eviction_soft) or None,
        "evictionSoftGracePeriod": dict(kubelet.eviction_soft_grace) or None,
        "evictionMaxPodGracePeriod": kubelet.eviction_max_pod_grace,
        "clusterDNS": list(kubelet.cluster_dns) or None,
        "imageGCHighThresholdPercent": kubelet.image_gc_high,
        "imageGCLowThresholdPercent": kubelet.image_gc_low,
        "cpuCFSQuota": kubelet.cpu_cfs_quota,
        **{name: _thaw(value) for name, value in kubelet.others.items()},
    }
    return {name: value for name, value in encoded.items() if value is not None}


def _freeze(value: Any, depth: int = 0) -> Any:
    """Return a hashable copy of a JSON value; no valid setting is deeper than the limit."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, dict):
        return FrozenDict({key: _freeze(inner, depth + 1) for key, inner in value.items()})
    if isinstance(value, list):
        return tuple(_freeze(inner, depth + 1) for inner in value)
    return value


def _thaw(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _thaw(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [_thaw(inner) for inner in value]
    return value
