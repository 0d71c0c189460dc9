"""Nodes that a DaemonSet selects, and the pod it creates for a node."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from dovetail.model.kube.taints import Taint, TaintEffect, Toleration
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.selectors import Operator, Requirement
from dovetail.simulator.controllermanager.pods.pod_template import REVISION_HASH, pod_from

_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER_THAN,
    "Lt": Operator.LESS_THAN,
}
_DAEMON_TOLERATIONS: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_HOST_NETWORK_TOLERATIONS: Final = (("node.kubernetes.io/network-unavailable", "NoSchedule"),)


class DaemonFit(NamedTuple):
    """True if a node should get a daemon pod, and may keep one that it has."""

    should_run: bool
    should_continue: bool


NO_FIT: Final = DaemonFit(should_run=False, should_continue=False)


def node_fit(daemon_set: Object, node: Object) -> DaemonFit:
    """Return how a node fits a DaemonSet, by name, labels and taints.

    Free resources do not matter.
    """
    spec: Mapping[str, Any] = daemon_set["spec"]["template"].get("spec") or {}
    name = node["metadata"]["name"]
    if spec.get("nodeName", name) != name or not _selects(spec, node):
        return NO_FIT
    taints = decode_taints(node)
    if not taints:
        return DaemonFit(should_run=True, should_continue=True)
    tolerations = [decode_toleration(encoded) for encoded in daemon_tolerations(spec)]
    untolerated = [
        taint for taint in taints if not any(accepted.tolerates(taint) for accepted in tolerations)
    ]
    return DaemonFit(
        should_run=not any(taint.effect is not TaintEffect.PREFER_NO_SCHEDULE for taint in untolerated),
        should_continue=not any(taint.effect is TaintEffect.NO_EXECUTE for taint in untolerated),
    )


def daemon_tolerations(pod_spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a daemon pod's tolerations: its own and those of every daemon."""
    own = list(pod_spec.get("tolerations") or ())
    extra = _DAEMON_TOLERATIONS + (_HOST_NETWORK_TOLERATIONS if pod_spec.get("hostNetwork") else ())
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in extra]
    return [*own, *(default for default in added if default not in own)]


def decode_toleration(encoded: Mapping[str, Any]) -> Toleration:
    """Decode a toleration."""
    effect = encoded.get("effect")
    return Toleration(
        key=encoded.get("key") or "",
        operator=encoded.get("operator") or "Equal",
        value=encoded.get("value") or "",
        effect=TaintEffect(effect) if effect else None,
    )


def decode_taints(node: Object) -> list[Taint]:
    """Decode a node's taints."""
    return [
        Taint(taint["key"], TaintEffect(taint["effect"]), taint.get("value") or "")
        for taint in get_field(node, "spec", "taints") or ()
    ]


def build_pod(daemon_set: Object, node: str, *, revision: str) -> Object:
    """Return the pod for a node; node affinity keeps it from all other nodes."""
    template = daemon_set["spec"]["template"]
    spec: dict[str, Any] = {**(template.get("spec") or {})}
    spec["tolerations"] = daemon_tolerations(spec)
    name_field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = dict(spec.get("affinity") or {})
    affinity["nodeAffinity"] = {
        **(affinity.get("nodeAffinity") or {}),
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [name_field]}]
        },
    }
    spec["affinity"] = affinity
    generation = str(daemon_set["metadata"]["generation"])
    revision_labels = {REVISION_HASH: revision, "pod-template-generation": generation}
    return pod_from({**template, "spec": spec}, daemon_set, labels=revision_labels)


def target_node(pod: Object) -> str:
    """Return the node that a daemon pod is bound to, or was created for."""
    bound = get_field(pod, "spec", "nodeName")
    if bound:
        return str(bound)
    for term in _required_terms(pod["spec"]):
        for field in term.get("matchFields") or ():
            if field["key"] == "metadata.name" and field["operator"] == "In":
                return str(field["values"][0])
    return ""


def _selects(pod_spec: Mapping[str, Any], node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    for key, value in (pod_spec.get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            return False
    terms = _required_terms(pod_spec)
    return not terms or any(_matches_term(term, node, labels) for term in terms)


def _required_terms(pod_spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    required = get_field(
        pod_spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms: Sequence[Mapping[str, Any]] = (required or {}).get("nodeSelectorTerms") or ()
    return terms


def _matches_term(term: Mapping[str, Any], node: Object, labels: Mapping[str, str]) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False  # An empty term matches nothing.
    names = {"metadata.name": node["metadata"]["name"]}
    return all(_decode_requirement(expression).matches(labels) for expression in expressions) and all(
        _decode_requirement(field).matches(names) for field in fields
    )


def _decode_requirement(expression: Mapping[str, Any]) -> Requirement:
    values = frozenset(expression.get("values") or ())
    return Requirement(expression["key"], _OPERATORS[expression["operator"]], values)
