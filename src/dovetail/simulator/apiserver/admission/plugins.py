"""Mutating admission of new pods: priority, tolerations and matchLabelKeys.

The first two are kube-apiserver's Priority and DefaultTolerationSeconds plugins. The merge of matchLabelKeys
is part of its pod strategy; like the plugins, it runs on creation only. All of them
replace parts of the pod and never edit them: stored parts are shared.
"""

from collections.abc import Mapping
from typing import Any, Final

from dovetail.codec.kube.pods import SYSTEM_PRIORITIES
from dovetail.ports.api_resources import PODS, PRIORITY_CLASSES
from dovetail.ports.kube_errors import Forbidden
from dovetail.simulator.apiserver.storage.frozen_object import Object, freeze
from dovetail.simulator.apiserver.storage.store import Store

_DEFAULT_TOLERATIONS: Final = tuple(
    freeze({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
)
_DEFAULT_POLICY: Final = "PreemptLowerPriority"
_LABEL_KEY_OPERATORS: Final = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class PriorityAdmission:
    """Resolves the PriorityClass of new pods."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def admit(self, pod: dict[str, Any]) -> None:
        """Set priority and preemption policy of a pod without a priority.

        Raises Forbidden if its class does not exist, or has another preemption policy.
        """
        spec = pod.get("spec") or {}
        if spec.get("priority") is not None:
            return
        name = spec.get("priorityClassName") or ""
        if name in SYSTEM_PRIORITIES:
            _check_preemption_policy(pod, _DEFAULT_POLICY)
            pod["spec"] = {**spec, "priority": SYSTEM_PRIORITIES[name]}
            return
        priority_class = self._store.get(PRIORITY_CLASSES, ("", name)) if name else self._default_class()
        policy = (priority_class or {}).get("preemptionPolicy") or _DEFAULT_POLICY
        _check_preemption_policy(pod, policy)
        if priority_class is not None:
            resolved = {
                "preemptionPolicy": policy,
                "priorityClassName": priority_class["metadata"]["name"],
                "priority": priority_class["value"],
            }
            pod["spec"] = {**spec, **resolved}
        elif name:
            pod_name = pod["metadata"]["name"]
            raise _forbidden(pod_name, f"no PriorityClass with name {name} was found")

    def _default_class(self) -> Object | None:
        """Return the PriorityClass with globalDefault; of several, the lowest."""
        defaults = [
            priority_class
            for priority_class in self._store.collections[PRIORITY_CLASSES].objects.values()
            if priority_class.get("globalDefault")
        ]
        return min(defaults, key=lambda priority_class: int(priority_class["value"]), default=None)


def _check_preemption_policy(pod: Mapping[str, Any], policy: str) -> None:
    own = (pod.get("spec") or {}).get("preemptionPolicy")
    if own and own != policy:
        raise _forbidden(
            pod["metadata"]["name"],
            f"the string value of PreemptionPolicy ({own}) must not be provided in pod spec; priority "
            f"admission controller computed {policy} from the given PriorityClass name",
        )


def _forbidden(pod_name: str, reason: str) -> Forbidden:
    return Forbidden(f'pods "{pod_name}" is forbidden: {reason}', kind=PODS.plural, name=pod_name)


def add_default_tolerations(pod: dict[str, Any]) -> None:
    """Tolerate a not-ready or unreachable node for 300 s, unless the pod says otherwise."""
    tolerations = pod["spec"].get("tolerations") or ()
    added = [
        default
        for default in _DEFAULT_TOLERATIONS
        if not any(_tolerates_key(toleration, default["key"]) for toleration in tolerations)
    ]
    if added:
        pod["spec"] = {**pod["spec"], "tolerations": [*tolerations, *added]}


def _tolerates_key(toleration: Mapping[str, Any], key: str) -> bool:
    # A toleration without key matches every key.
    tolerated = toleration.get("key") or key
    return tolerated == key and toleration.get("effect") in (None, "", "NoExecute")


def merge_label_keys(pod: dict[str, Any]) -> None:
    """Merge matchLabelKeys and mismatchLabelKeys of a new pod into its label selectors."""
    spec: Mapping[str, Any] = pod["spec"]
    labels = pod["metadata"].get("labels") or {}
    merged: dict[str, Any] = {}
    if constraints := spec.get("topologySpreadConstraints"):
        merged["topologySpreadConstraints"] = [
            _merge_into_selector(constraint, labels) for constraint in constraints
        ]
    if affinity := spec.get("affinity"):
        merged["affinity"] = {
            kind: _merge_into_terms(terms, labels) if kind != "nodeAffinity" else terms
            for kind, terms in affinity.items()
        }
    if merged:
        pod["spec"] = {**spec, **merged}


def _merge_into_terms(affinity: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    merged = dict(affinity)
    if required := affinity.get(_REQUIRED):
        merged[_REQUIRED] = [_merge_into_selector(term, labels) for term in required]
    if preferred := affinity.get(_PREFERRED):
        merged[_PREFERRED] = [
            {**weighted, "podAffinityTerm": _merge_into_selector(weighted["podAffinityTerm"], labels)}
            if weighted.get("podAffinityTerm")
            else weighted
            for weighted in preferred
        ]
    return merged


def _merge_into_selector(term: Mapping[str, Any], labels: Mapping[str, str]) -> Mapping[str, Any]:
    selector = term.get("labelSelector")
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in _LABEL_KEY_OPERATORS.items()
        for key in term.get(field) or ()
        if key in labels
    ]
    # A term without a selector selects nothing, whatever its label keys are.
    if not added or selector is None:
        return term
    expressions = [*(selector.get("matchExpressions") or ()), *added]
    return {**term, "labelSelector": {**selector, "matchExpressions": expressions}}
