"""Decoder of NodePools, with the validation of their CRD.

A new NodePool field needs an entry in each of these places; the tests in
``tests/codec/crds`` and ``tests/codec/rewrite`` fail for a place that is missing:

    model.karpenter.nodepool               the field of the struct
    codec.karpenter.nodepools              decoder
    codec.karpenter.nodepool_encoding      encoder
    codec.crds.nodepool                    schema of the CRD
    core.nodepool.hash                     only if a change must replace nodes
"""

import re
from datetime import timedelta
from hashlib import blake2b
from typing import Any

import msgspec

from dovetail.codec.fields import MAX_INT32, Field
from dovetail.codec.kube import label_validation
from dovetail.codec.kube.conditions import decode_conditions
from dovetail.codec.kube.metadata import decode_annotations, decode_metadata
from dovetail.codec.kube.requirements import (
    MAX_VALUES,
    NODEPOOL_OPERATORS,
    decode_requirements,
    decode_taints,
)
from dovetail.codec.quantities import decode_crd_resources, decode_duration, decode_resources
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import (
    Budget,
    ConsolidationPolicy,
    Disruption,
    DisruptionReason,
    NodeClassRef,
    NodePool,
    NodeTemplate,
    find_node_cost_error,
)
from dovetail.model.kube.conditions import READY, TRUE
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import NODES
from dovetail.model.kube.taints import Taint

MAX_ENTRIES = 100
MAX_BUDGETS = 50
MAX_WEIGHT = 100
MAX_GROUP_LENGTH = 256
DEFAULT_EXPIRE_AFTER = timedelta(hours=720)
_SPEC = "template disruption limits weight replicas".split()
_TEMPLATE_SPEC = ("requirements taints startupTaints nodeClassRef expireAfter terminationGracePeriod").split()
BUDGET_NODES = re.compile(r"((100|[0-9]{1,2})%|[0-9]+)")
BUDGET_DURATION = re.compile(r"([0-9]+(m|h))+(0s)?")
CRON = re.compile(r"@(annually|yearly|monthly|weekly|daily|midnight|hourly)|(\S+\s+){4}\S+")
_NESTED_FIELDS = {
    "requirements": "spec.template.spec",
    "taints": "spec.template.spec",
    "startupTaints": "spec.template.spec",
    "nodeClassRef": "spec.template.spec",
    "expireAfter": "spec.template.spec",
    "terminationGracePeriod": "spec.template.spec",
    "labels": "spec.template.metadata",
    "annotations": "spec.template.metadata",
    "consolidationPolicy": "spec.disruption",
    "consolidateAfter": "spec.disruption",
    "budgets": "spec.disruption",
}


def decode_nodepool(root: Field) -> NodePool:
    """Decode a karpenter.sh/v1 NodePool, with the validation of its CRD."""
    meta, spec = decode_metadata(root), root["spec"]
    root.check_known_keys(("apiVersion", "kind", "metadata", "spec", "status"))
    spec.check_required()
    _check_nesting(spec)
    spec.check_known_keys((*_SPEC, *_NESTED_FIELDS))
    replicas = spec["replicas"].integer(low=0, high=MAX_INT32)
    weight = spec["weight"].integer(low=1, high=MAX_WEIGHT)
    if replicas is not None and weight is not None:
        spec["weight"].add_error("cannot be combined with replicas: pods do not select a static NodePool")
    node_cost_error = find_node_cost_error(meta.annotations)
    if node_cost_error and not root.context.api_rules_only:
        root["metadata"]["annotations"][label_keys.NODE_COST_ANNOTATION].add_error(node_cost_error)
    limits = decode_crd_resources(spec["limits"]) if spec["limits"] else None
    if replicas is not None and limits is not None and set(limits) - {NODES}:
        spec["limits"].add_error("may name 'nodes' only in a pool with replicas")
    return NodePool(
        name=meta.name,
        uid=meta.uid,
        template=_decode_template(spec["template"]),
        disruption=_decode_disruption(spec["disruption"]),
        limits=limits,
        weight=weight or 0,
        replicas=replicas,
        ready=decode_ready(root["status"]),
        deleting=meta.deleting,
        annotations=meta.annotations,
        generation=meta.generation,
        resource_version=meta.resource_version,
        conditions=decode_conditions(root["status"]["conditions"]),
        node_class_generation=root["status"]["nodeClassObservedGeneration"].integer() or 0,
        resources=decode_resources(root["status"]["resources"]) if root["status"]["resources"] else None,
        node_count=root["status"]["nodes"].integer() or 0,
    )


def _check_nesting(spec: Field) -> None:
    for name, parent in _NESTED_FIELDS.items():
        if spec[name] and spec.context.strict:
            spec[name].add_error(f"belongs to {parent}")


def decode_ready(status: Field) -> bool:
    """Decode the Ready condition; an object without one counts as ready."""
    for condition in status["conditions"].items():
        if condition["type"].value == READY:
            return bool(condition["status"].value == TRUE)
    return True


def _decode_template(field: Field) -> NodeTemplate:
    field.check_known_keys(("metadata", "spec"))
    spec, meta = field["spec"], field["metadata"]
    if not (field.check_required() and spec.check_required()):
        return NodeTemplate()
    spec.check_known_keys(_TEMPLATE_SPEC)
    meta.check_known_keys(("labels", "annotations"))
    for name in ("taints", "startupTaints"):
        spec[name].check_length(MAX_ENTRIES)
    taints, startup_taints = decode_taints(spec["taints"]), decode_taints(spec["startupTaints"])
    _check_duplicate_taints(spec, taints, startup_taints)
    return NodeTemplate(
        labels=_decode_labels(meta["labels"]),
        annotations=decode_annotations(meta["annotations"]),
        requirements=decode_node_requirements(spec["requirements"]),
        taints=taints,
        startup_taints=startup_taints,
        node_class=decode_node_class_ref(spec["nodeClassRef"]),
        expire_after=decode_expire_after(spec["expireAfter"]),
        termination_grace_period=decode_termination_grace_period(spec["terminationGracePeriod"]),
    )


def _decode_labels(field: Field) -> Any:
    read = field.labels()
    field.check_length(MAX_ENTRIES)
    for entry in field.entries():
        key = str(entry.key)
        if label_validation.check_key(entry, key) and label_validation.check_allowed_in_nodepool(entry, key):
            value = read.get(key, "")
            if label_validation.check_value(entry, value):
                label_validation.check_well_known_value(entry, key, value)
    return read


def decode_node_requirements(field: Field, *, claim: bool = False) -> tuple[RequirementSpec, ...]:
    """Decode requirements of a NodePool or, with ``claim``, of a NodeClaim."""
    # A NodeClaim lists hundreds of types, is updated a dozen times, and has many equals.
    key = None if field.context.strict else _cache_key(field.value, claim)
    return field.context.decode_cached(key, lambda: _decode_node_requirements(field, claim=claim))


def _cache_key(wire: Any, claim: bool) -> bytes | None:
    """Return a digest of requirements as cache key; None if they cannot be encoded."""
    try:
        return blake2b(msgspec.json.encode([claim, wire]), digest_size=16).digest()
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError):
        return None


def _decode_node_requirements(field: Field, *, claim: bool) -> tuple[RequirementSpec, ...]:
    if field.value is None and field.context.strict:
        field.add_error("is missing; write [] to allow everything")
    field.check_length(MAX_ENTRIES)
    for requirement in field.items():
        requirement["values"].check_length(MAX_VALUES)
        key = requirement["key"].value
        if isinstance(key, str) and key:
            label_validation.check_allowed_in_nodepool(requirement["key"], key, claim=claim)
            if requirement["operator"].value == Operator.IN:
                label_validation.check_any_known_value(requirement["values"], key)
    return decode_requirements(field, NODEPOOL_OPERATORS)


def _check_duplicate_taints(
    spec: Field, taints: tuple[Taint, ...], startup_taints: tuple[Taint, ...]
) -> None:
    """Add an error for taints with equal key and effect, across both lists.

    The API server accepts such a NodePool; its Ready condition becomes False.
    """
    if spec.context.api_rules_only:
        return
    used: set[tuple[str, str]] = set()
    for name, entries in (("taints", taints), ("startupTaints", startup_taints)):
        for index, taint in enumerate(entries):
            if (taint.key, taint.effect) in used:
                entry = Field(taint, spec.context, spec[name], index)
                entry.add_error(f"duplicate taint {taint.key}:{taint.effect}")
            used.add((taint.key, taint.effect))


def decode_node_class_ref(field: Field) -> NodeClassRef:
    """Decode the reference to a node class: group, kind and name, without version."""
    if not field.check_required():
        return NodeClassRef()
    field.check_known_keys(("group", "kind", "name"))
    if field["apiVersion"]:
        group = field["apiVersion"].text().split("/")[0]
        field["apiVersion"].add_error(f"takes a group without version: write 'group: {group}'")
        return NodeClassRef(group, field["kind"].text(), field["name"].text())
    for part in ("group", "kind", "name"):
        field[part].check_required()
    group = field["group"].text()
    field["group"].check_text_length(MAX_GROUP_LENGTH)
    if "/" in group:
        field["group"].add_error(f"{group!r} has a version; write {group.split('/')[0]!r}")
    kind = field["kind"].text()
    guessing = field.context.strict and not field.context.api_rules_only
    if group == "karpenter.k8s.aws" and kind and guessing:
        field["kind"].choice(("EC2NodeClass",), kind, f"kind of {group}")
    return NodeClassRef(group, kind, field["name"].text())


def decode_expire_after(field: Field) -> timedelta | None:
    """Decode expireAfter; None means never."""
    return decode_duration(field, never_allowed=True) if field else DEFAULT_EXPIRE_AFTER


def decode_termination_grace_period(field: Field) -> timedelta | None:
    """Decode terminationGracePeriod; None means no limit."""
    return decode_duration(field, never_allowed=False) if field else None


def _decode_disruption(field: Field) -> Disruption:
    if not field:
        return Disruption()
    field.check_known_keys(("consolidateAfter", "consolidationPolicy", "budgets"))
    after = field["consolidateAfter"]
    default = ConsolidationPolicy.WHEN_EMPTY_OR_UNDERUTILIZED
    policy = _decode_policy(field["consolidationPolicy"], default)
    budgets = field["budgets"]
    budgets.check_length(MAX_BUDGETS)
    return Disruption(
        consolidate_after=decode_duration(after, never_allowed=True) if after else timedelta(),
        policy=ConsolidationPolicy(policy),
        budgets=tuple(_decode_budget(item) for item in budgets.items()) if budgets else (Budget(),),
    )


def _decode_policy(field: Field, default: str) -> str:
    if field.value == "WhenUnderutilized":
        field.add_error(f"'WhenUnderutilized' is its v1beta1 name; did you mean {str(default)!r}?")
        return default
    return field.choice(tuple(ConsolidationPolicy), default, "consolidation policy")


def _decode_budget(field: Field) -> Budget:
    field.check_known_keys(("nodes", "schedule", "duration", "reasons"))
    nodes = field["nodes"]
    share = nodes.text(Budget().nodes)
    if not BUDGET_NODES.fullmatch(share):
        nodes.add_error(f"{nodes.value!r} is neither a number of nodes nor a percentage such as '10%'")
    schedule, length = field["schedule"], field["duration"]
    if bool(schedule) != bool(length):
        field.add_error("needs schedule and duration together, or neither")
    if schedule and not CRON.fullmatch(schedule.text().strip()):
        schedule.add_error(f"{schedule.value!r} is not a cron schedule; write five fields or @daily")
    reasons = [
        reason.choice(tuple(DisruptionReason), DisruptionReason.UNDERUTILIZED, "disruption reason")
        for reason in field["reasons"].items()
    ]
    if len(set(reasons)) < len(reasons) and field.context.strict:
        field["reasons"].add_error("contains a duplicate reason")
    return Budget(
        nodes=share,
        schedule=schedule.text() or None,
        duration=_decode_budget_duration(length),
        reasons=field["reasons"].texts(),
    )


def _decode_budget_duration(field: Field) -> timedelta | None:
    if not field:
        return None
    read = decode_duration(field, never_allowed=False)
    if read is not None and not BUDGET_DURATION.fullmatch(field.value):
        field.add_error(f"{field.value!r} contains seconds; a budget supports hours and minutes only")
        return None
    return read
