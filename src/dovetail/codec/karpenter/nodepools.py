"""NodePools on the wire, read by the rules of their CRD."""

import re
from datetime import timedelta
from hashlib import blake2b
from typing import Any

import msgspec

from dovetail.codec.fields import Field
from dovetail.codec.kube import label_validation
from dovetail.codec.kube.conditions import conditions
from dovetail.codec.kube.metadata import annotations, metadata
from dovetail.codec.kube.requirements import MOST_VALUES, POOL_OPERATORS, requirements, taints
from dovetail.codec.quantities import duration, resources
from dovetail.model.karpenter.nodepool import (
    Budget,
    ConsolidationPolicy,
    Disruption,
    NodeClassRef,
    NodePool,
    NodeTemplate,
)
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import NODES
from dovetail.model.kube.taints import Taint

MOST_ENTRIES = 100
MOST_BUDGETS = 50
HEAVIEST = 100
REASONS = ("Underutilized", "Empty", "Drifted")
DEFAULT_EXPIRY = timedelta(hours=720)
_SPEC = "template disruption limits weight replicas".split()
_TEMPLATE_SPEC = (
    "requirements taints startupTaints nodeClassRef expireAfter terminationGracePeriod"
).split()
BUDGET_NODES = re.compile(r"((100|[0-9]{1,2})%|[0-9]+)")
BUDGET_DURATION = re.compile(r"([0-9]+(m|h))+(0s)?")
CRON = re.compile(r"@(annually|yearly|monthly|weekly|daily|midnight|hourly)|(\S+\s+){4}\S+")
_MOVED = {
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


def decode_node_pool(root: Field) -> NodePool:
    """Read a karpenter.sh/v1 NodePool by the rules of its CRD."""
    meta, spec = metadata(root), root["spec"]
    root.known_keys(("apiVersion", "kind", "metadata", "spec", "status"))
    spec.required()
    _point_at_moved(spec)
    spec.known_keys((*_SPEC, *_MOVED))
    replicas = spec["replicas"].whole(low=0)
    weight = spec["weight"].whole(low=1, high=HEAVIEST)
    if replicas is not None and weight is not None:
        spec["weight"].mistake("goes with replicas never: a static pool is not chosen by weight")
    limits = resources(spec["limits"]) if spec["limits"] else None
    if replicas is not None and limits is not None and set(limits) - {NODES}:
        spec["limits"].mistake("may name 'nodes' only in a pool with replicas")
    return NodePool(
        name=meta.name,
        uid=meta.uid,
        template=_template(spec["template"]),
        disruption=_disruption(spec["disruption"]),
        limits=limits,
        weight=weight or 0,
        replicas=replicas,
        ready=is_ready(root["status"]),
        deleting=meta.deleting,
        annotations=meta.annotations,
        generation=meta.generation,
        resource_version=meta.resource_version,
        conditions=conditions(root["status"]["conditions"]),
        node_class_generation=root["status"]["nodeClassObservedGeneration"].whole() or 0,
        used=resources(root["status"]["resources"]) if root["status"]["resources"] else None,
        node_count=root["status"]["nodes"].whole() or 0,
    )


def _point_at_moved(spec: Field) -> None:
    for name, home in _MOVED.items():
        if spec[name] and spec.findings.written_by_hand:
            spec[name].mistake(f"has its place in {home}")


def is_ready(status: Field) -> bool:
    """Read the Ready condition; an object without one is taken for ready."""
    for condition in status["conditions"].items():
        if condition["type"].value == "Ready":
            return bool(condition["status"].value == "True")
    return True


def _template(field: Field) -> NodeTemplate:
    field.known_keys(("metadata", "spec"))
    spec, meta = field["spec"], field["metadata"]
    if not (field.required() and spec.required()):
        return NodeTemplate()
    spec.known_keys(_TEMPLATE_SPEC)
    meta.known_keys(("labels", "annotations"))
    for name in ("taints", "startupTaints"):
        spec[name].at_most(MOST_ENTRIES)
    marks, early = taints(spec["taints"]), taints(spec["startupTaints"])
    _check_twins(spec, marks, early)
    return NodeTemplate(
        labels=_pool_labels(meta["labels"]),
        annotations=annotations(meta["annotations"]),
        requirements=pool_requirements(spec["requirements"]),
        taints=marks,
        startup_taints=early,
        node_class=node_class_ref(spec["nodeClassRef"]),
        expire_after=expiry(spec["expireAfter"]),
        termination_grace_period=grace(spec["terminationGracePeriod"]),
    )


def _pool_labels(field: Field) -> Any:
    read = field.labels()
    field.at_most(MOST_ENTRIES)
    for entry in field.entries():
        key = str(entry.key)
        if label_validation.check_key(entry, key) and label_validation.check_allowed_in_pool(
            entry, key
        ):
            value = read.get(key, "")
            if label_validation.check_value(entry, value):
                label_validation.check_meaning(entry, key, value)
    return read


def pool_requirements(field: Field, *, claim: bool = False) -> tuple[RequirementSpec, ...]:
    """Read requirements of a pool or claim, by the rules for those."""
    findings = field.findings
    if findings.written_by_hand:
        return _pool_requirements(field, claim=claim)
    # A claim names hundreds of types, changes a dozen times, and is one of many alike.
    key = _fingerprint(field.value, claim)
    known: tuple[RequirementSpec, ...] | None = findings.remembered(key) if key else None
    if known is not None:
        return known
    before = len(findings.found)
    read = _pool_requirements(field, claim=claim)
    if key and len(findings.found) == before:
        findings.remember(key, read)
    return read


def _fingerprint(wire: Any, claim: bool) -> bytes | None:
    """Return a key for requirements; short, because what it stands for can be long."""
    try:
        return blake2b(msgspec.json.encode([claim, wire]), digest_size=16).digest()
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError):
        return None


def _pool_requirements(field: Field, *, claim: bool) -> tuple[RequirementSpec, ...]:
    if field.value is None and field.findings.written_by_hand:
        field.mistake("is missing; write [] to allow everything")
    field.at_most(MOST_ENTRIES)
    for one in field.items():
        one["values"].at_most(MOST_VALUES)
        key = one["key"].value
        if isinstance(key, str) and key:
            label_validation.check_allowed_in_pool(one["key"], key, claim=claim)
            if one["operator"].value == Operator.IN:
                label_validation.check_any_known(one["values"], key)
    return requirements(field, POOL_OPERATORS)


def _check_twins(spec: Field, marks: tuple[Taint, ...], early: tuple[Taint, ...]) -> None:
    """Two taints may not share key and effect, not even across the two lists.

    The API takes such a pool; its Ready condition tells.
    """
    if spec.findings.by_the_letter:
        return
    seen: set[tuple[str, str]] = set()
    for name, ones in (("taints", marks), ("startupTaints", early)):
        for index, one in enumerate(ones):
            if (one.key, one.effect) in seen:
                spot = Field(one, spec.findings, spec[name], index)
                spot.mistake(f"the taint {one.key}:{one.effect} is there twice")
            seen.add((one.key, one.effect))


def node_class_ref(field: Field) -> NodeClassRef:
    """Read the reference to a node class: group, kind and name, no version."""
    if not field.required():
        return NodeClassRef()
    field.known_keys(("group", "kind", "name"))
    if field["apiVersion"]:
        group = field["apiVersion"].text().split("/")[0]
        field["apiVersion"].mistake(f"takes a group without version: write 'group: {group}'")
        return NodeClassRef(group, field["kind"].text(), field["name"].text())
    for part in ("group", "kind", "name"):
        field[part].required()
    group = field["group"].text()
    if "/" in group:
        field["group"].mistake(f"{group!r} has a version; write {group.split('/')[0]!r}")
    kind = field["kind"].text()
    guessing = field.findings.written_by_hand and not field.findings.by_the_letter
    if group == "karpenter.k8s.aws" and kind and guessing:
        field["kind"].choice(("EC2NodeClass",), kind, f"kind of {group}")
    return NodeClassRef(group, kind, field["name"].text())


def expiry(field: Field) -> timedelta | None:
    """Read after how long a node goes; None means never."""
    return duration(field, never_allowed=True) if field else DEFAULT_EXPIRY


def grace(field: Field) -> timedelta | None:
    """Read how long draining may take; None means as long as it needs."""
    return duration(field, never_allowed=False) if field else None


def _disruption(field: Field) -> Disruption:
    if not field:
        return Disruption()
    field.known_keys(("consolidateAfter", "consolidationPolicy", "budgets"))
    after = field["consolidateAfter"]
    default = ConsolidationPolicy.WHEN_EMPTY_OR_UNDERUTILIZED
    policy = _policy(field["consolidationPolicy"], default)
    budgets = field["budgets"]
    budgets.at_most(MOST_BUDGETS)
    return Disruption(
        consolidate_after=duration(after, never_allowed=True) if after else timedelta(),
        policy=ConsolidationPolicy(policy),
        budgets=tuple(_budget(one) for one in budgets.items()) if budgets else (Budget(),),
    )


def _policy(field: Field, default: str) -> str:
    if field.value == "WhenUnderutilized":
        field.mistake(f"'WhenUnderutilized' is its v1beta1 name; did you mean {str(default)!r}?")
        return default
    return field.choice(tuple(ConsolidationPolicy), default, "consolidation policy")


def _budget(field: Field) -> Budget:
    field.known_keys(("nodes", "schedule", "duration", "reasons"))
    nodes = field["nodes"]
    share = nodes.text(Budget().nodes)
    if not BUDGET_NODES.fullmatch(share):
        nodes.mistake(f"{nodes.value!r} is neither a number of nodes nor a share such as '10%'")
    schedule, length = field["schedule"], field["duration"]
    if bool(schedule) != bool(length):
        field.mistake("needs schedule and duration together, or neither")
    if schedule and not CRON.fullmatch(schedule.text().strip()):
        schedule.mistake(f"{schedule.value!r} is no cron schedule; write five fields or @daily")
    reasons = [
        one.choice(REASONS, REASONS[0], "reason to disrupt") for one in field["reasons"].items()
    ]
    if len(set(reasons)) < len(reasons) and field.findings.written_by_hand:
        field["reasons"].mistake("names a reason twice")
    return Budget(
        nodes=share,
        schedule=schedule.text() or None,
        duration=_budget_duration(length),
        reasons=field["reasons"].texts(),
    )


def _budget_duration(field: Field) -> timedelta | None:
    if not field:
        return None
    read = duration(field, never_allowed=False)
    if read is not None and not BUDGET_DURATION.fullmatch(field.value):
        field.mistake(f"{field.value!r} counts seconds; a budget counts hours and minutes only")
        return None
    return read
