"""Whether a DaemonSet's pod belongs on a node, and what that pod looks like."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from dovetail.model.kube.taints import Effect, Taint, Toleration
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.storage.selectors import Ask, Term
from dovetail.simulator.controllermanager.pods.pod_template import REVISION_HASH, pod_from

_TESTS: Final = {
    "In": Ask.IN,
    "NotIn": Ask.NOT_IN,
    "Exists": Ask.EXISTS,
    "DoesNotExist": Ask.ABSENT,
    "Gt": Ask.MORE,
    "Lt": Ask.LESS,
}
_ALWAYS_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_ON_HOST_NETWORK: Final = (("node.kubernetes.io/network-unavailable", "NoSchedule"),)


class Verdict(NamedTuple):
    """Whether a pod should be started on a node, and whether one there may go on."""

    run: bool
    stay: bool


NOT_HERE: Final = Verdict(run=False, stay=False)


def verdict(daemon_set: Object, node: Object) -> Verdict:
    """Judge a node for a DaemonSet by name, labels and taints; never by free room."""
    spec: Mapping[str, Any] = daemon_set["spec"]["template"].get("spec") or {}
    name = node["metadata"]["name"]
    if spec.get("nodeName", name) != name or not _selects(spec, node):
        return NOT_HERE
    consent = [toleration(one) for one in tolerations(spec)]
    hated = [taint for taint in taints_of(node) if not any(one.tolerates(taint) for one in consent)]
    return Verdict(
        run=not any(one.effect is not Effect.PREFER_NO_SCHEDULE for one in hated),
        stay=not any(one.effect is Effect.NO_EXECUTE for one in hated),
    )


def tolerations(pod_spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a daemon pod's tolerations: its own and those every daemon has."""
    own = list(pod_spec.get("tolerations") or ())
    extra = _ALWAYS_TOLERATED + (_ON_HOST_NETWORK if pod_spec.get("hostNetwork") else ())
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in extra]
    return [*own, *(one for one in added if one not in own)]


def toleration(wire: Mapping[str, Any]) -> Toleration:
    """Read a toleration."""
    effect = wire.get("effect")
    return Toleration(
        key=wire.get("key") or "",
        operator=wire.get("operator") or "Equal",
        value=wire.get("value") or "",
        effect=Effect(effect) if effect else None,
    )


def taints_of(node: Object) -> list[Taint]:
    """Read a node's taints."""
    return [
        Taint(one["key"], Effect(one["effect"]), one.get("value") or "")
        for one in look(node, "spec", "taints") or ()
    ]


def daemon_pod(daemon_set: Object, node: str, *, revision: str) -> Object:
    """Return the pod for a node: kube-scheduler binds it, and can bind it nowhere else."""
    template = daemon_set["spec"]["template"]
    spec: dict[str, Any] = {**(template.get("spec") or {})}
    spec["tolerations"] = tolerations(spec)
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = dict(spec.get("affinity") or {})
    affinity["nodeAffinity"] = {
        **(affinity.get("nodeAffinity") or {}),
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [here]}]
        },
    }
    spec["affinity"] = affinity
    generation = str(daemon_set["metadata"]["generation"])
    marks = {REVISION_HASH: revision, "pod-template-generation": generation}
    return pod_from({**template, "spec": spec}, daemon_set, labels=marks)


def node_meant(pod: Object) -> str:
    """Return the node that a daemon pod is on, or is meant for."""
    bound = look(pod, "spec", "nodeName")
    if bound:
        return str(bound)
    for term in _required_terms(pod["spec"]):
        for one in term.get("matchFields") or ():
            if one["key"] == "metadata.name" and one["operator"] == "In":
                return str(one["values"][0])
    return ""


def _selects(pod_spec: Mapping[str, Any], node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    for key, value in (pod_spec.get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            return False
    terms = _required_terms(pod_spec)
    return not terms or any(_term_holds(one, node, labels) for one in terms)


def _required_terms(pod_spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    required = look(
        pod_spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms: Sequence[Mapping[str, Any]] = (required or {}).get("nodeSelectorTerms") or ()
    return terms


def _term_holds(term: Mapping[str, Any], node: Object, labels: Mapping[str, str]) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False  # An empty term matches nothing.
    names = {"metadata.name": node["metadata"]["name"]}
    return all(_read(one).holds(labels) for one in expressions) and all(
        _read(one).holds(names) for one in fields
    )


def _read(expression: Mapping[str, Any]) -> Term:
    values = frozenset(expression.get("values") or ())
    return Term(expression["key"], _TESTS[expression["operator"]], values)
