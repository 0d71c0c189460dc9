"""Validation of nodes, volumes, CronJobs, PriorityClasses, PodDisruptionBudgets, and of label selectors."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dovetail.codec.kube.pods import SYSTEM_PRIORITIES
from dovetail.core.disruption.cron import parse_schedule
from dovetail.simulator.apiserver.admission.field_errors import (
    FieldError,
    JsonObject,
    forbidden,
    invalid,
    required,
)
from dovetail.simulator.apiserver.storage.frozen_object import get_field

_SELECTOR_OPERATORS: Final = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}
"""True for operators of a label selector that need values."""
_SYSTEM_PREFIX: Final = "system-"
_MAX_USER_PRIORITY: Final = 1_000_000_000
_TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_VOLUME_SETTINGS: Final = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)
"""Fields of a PersistentVolume's spec that are not its source, such as ``csi``."""


def validate_label_selector(selector: Any, path: str) -> Iterator[FieldError]:
    """Yield the errors of a LabelSelector's expressions."""
    expressions = selector.get("matchExpressions") if isinstance(selector, Mapping) else None
    for index, expression in enumerate(expressions or ()):
        expression_path = f"{path}.matchExpressions[{index}]"
        if not expression.get("key"):
            yield required(f"{expression_path}.key")
        operator = expression.get("operator")
        if operator not in _SELECTOR_OPERATORS:
            yield invalid(f"{expression_path}.operator", f"{operator!r}: not a valid selector operator")
        elif _SELECTOR_OPERATORS[operator] and not expression.get("values"):
            yield required(
                f"{expression_path}.values", "must be specified when `operator` is 'In' or 'NotIn'"
            )


def validate_node(obj: JsonObject) -> Iterator[FieldError]:
    """Validate the taints of a Node."""
    for index, taint in enumerate(get_field(obj, "spec", "taints") or ()):
        # Kubernetes names this path, although taints are in the spec.
        path = f"metadata.taints[{index}]"
        if not taint.get("key"):
            yield required(f"{path}.key", "name part must be non-empty")
        effect = taint.get("effect")
        if not effect:
            yield required(f"{path}.effect")
        elif effect not in _TAINT_EFFECTS:
            yield invalid(f"{path}.effect", f"{effect!r} is not one of {', '.join(_TAINT_EFFECTS)}")


def validate_volume(obj: JsonObject) -> Iterator[FieldError]:
    """Validate a PersistentVolume."""
    spec = obj.get("spec") or {}
    if not spec.get("accessModes"):
        yield required("spec.accessModes")
    if not spec.get("capacity"):
        yield required("spec.capacity")
    if not set(spec) - _VOLUME_SETTINGS:
        yield required("spec", "must specify a volume type")


def validate_volume_claim(obj: JsonObject) -> Iterator[FieldError]:
    """Validate a PersistentVolumeClaim."""
    yield from _validate_claim_spec(obj.get("spec") or {}, "spec")


def validate_claim_templates(stateful_set: JsonObject) -> Iterator[FieldError]:
    """Validate the volumeClaimTemplates of a StatefulSet."""
    for index, template in enumerate(get_field(stateful_set, "spec", "volumeClaimTemplates") or ()):
        path = f"spec.volumeClaimTemplates[{index}].spec"
        yield from _validate_claim_spec(template.get("spec") or {}, path)
        if not get_field(template, "metadata", "name"):
            # Each template becomes a volume of the pods, and its name that volume's name.
            yield required(f"spec.template.spec.volumes[{index}].name")


def _validate_claim_spec(spec: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    if not spec.get("accessModes"):
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
    if not get_field(spec, "resources", "requests", "storage"):
        yield required(f"{path}.resources[storage]")
    yield from validate_label_selector(spec.get("selector"), f"{path}.selector")


def validate_schedule(cron_job: JsonObject) -> Iterator[FieldError]:
    """Validate the schedule of a CronJob."""
    schedule = get_field(cron_job, "spec", "schedule")
    if not schedule:
        yield required("spec.schedule")
        return
    try:
        parse_schedule(schedule)
    except ValueError as error:
        yield invalid("spec.schedule", f"{schedule!r}: {error}")


def validate_hpa(obj: JsonObject) -> Iterator[FieldError]:
    """Validate a HorizontalPodAutoscaler."""
    spec = obj.get("spec") or {}
    low, high = spec.get("minReplicas") or 1, spec.get("maxReplicas") or 0
    for name in ("kind", "name"):
        if not get_field(spec, "scaleTargetRef", name):
            yield required(f"spec.scaleTargetRef.{name}")
    if low < 1:
        yield invalid("spec.minReplicas", f"{low}: must be greater than or equal to 1")
    if high < 1:
        yield invalid("spec.maxReplicas", f"{high}: must be greater than 0")
    elif high < low:
        yield invalid("spec.maxReplicas", f"{high}: must be greater than or equal to `minReplicas`")


def validate_priority_class(obj: JsonObject) -> Iterator[FieldError]:
    """Validate a PriorityClass: the prefix ``system-`` and higher values are reserved."""
    name, value = obj["metadata"]["name"], obj.get("value") or 0
    if name.startswith(_SYSTEM_PREFIX):
        known = SYSTEM_PRIORITIES.get(name)
        if known != value:
            error = f"value of {name} PriorityClass must be {known}"
            if known is None:
                error = f"{name} is not a known system priority class"
            yield forbidden(
                "metadata.name",
                f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only. "
                f"error: {error}",
            )
    elif value > _MAX_USER_PRIORITY:
        yield forbidden("value", f"maximum allowed value of a user defined priority is {_MAX_USER_PRIORITY}")


def validate_pdb(obj: JsonObject) -> Iterator[FieldError]:
    """Validate a PodDisruptionBudget."""
    spec = obj.get("spec") or {}
    yield from validate_label_selector(spec.get("selector"), "spec.selector")
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield invalid("spec", "minAvailable and maxUnavailable cannot be both set")
    for name in ("minAvailable", "maxUnavailable"):
        value = spec.get(name)
        is_percent = isinstance(value, str) and value.removesuffix("%").isdigit() and value[-1:] == "%"
        is_count = isinstance(value, int) and value >= 0
        if value is not None and not is_percent and not is_count:
            yield invalid(f"spec.{name}", f"{value!r} is neither a number nor a percentage such as '10%'")
