"""Disruptions that a PodDisruptionBudget allows, computed from the current pods."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from dovetail.ports.api_resources import POD_DISRUPTION_BUDGETS, PODS, Resource, find_resource
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.selectors import (
    SelectionPredicate,
    decode_label_selector,
    labels_match,
)
from dovetail.simulator.apiserver.storage.store import Change, Store, object_key

ControllerKey = tuple[str, str, str]
"""apiVersion, kind and uid of a controller."""


class PdbStatus(msgspec.Struct, frozen=True):
    """Counts in the status of a PodDisruptionBudget."""

    expected: int
    healthy: int
    desired: int
    allowed: int


def pdbs_for_pod(store: Store, pod: Object) -> list[Object]:
    """Return the PodDisruptionBudgets that select a pod, ordered by name."""
    meta = pod["metadata"]
    pdbs = store.collections[POD_DISRUPTION_BUDGETS].select(SelectionPredicate(meta["namespace"]))
    return [pdb for pdb in pdbs if _selects(pdb.get("spec") or {}, meta.get("labels") or {})]


class _SelectedPods:
    """Pods that one PodDisruptionBudget selects, with running counts."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = spec
        self.healthy = 0
        self.controllers: Counter[ControllerKey] = Counter()
        self._pods: dict[str, tuple[bool, ControllerKey | None]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def update(self, name: str, pod: Object | None) -> None:
        """Update one pod of the namespace; None if it is gone."""
        before = self._pods.pop(name, None)
        if before is not None:
            self.healthy -= before[0]
            if before[1] is not None:
                self.controllers[before[1]] -= 1
                if not self.controllers[before[1]]:
                    del self.controllers[before[1]]
        if pod is None or not _selects(self.spec, pod["metadata"].get("labels") or {}):
            return
        now = self._pods[name] = (is_healthy(pod), _controller_key(pod))
        self.healthy += now[0]
        if now[1] is not None:
            self.controllers[now[1]] += 1


class _NamespaceBudgets:
    """Counted PodDisruptionBudgets of a namespace, found by the labels of a pod."""

    def __init__(self) -> None:
        self._by_name: dict[str, _SelectedPods] = {}
        self._by_label: dict[tuple[str, str] | None, dict[str, _SelectedPods]] = {}
        """First label of the selector → name → pods; None: a selector without ``matchLabels``."""

    def get(self, name: str) -> _SelectedPods | None:
        return self._by_name.get(name)

    def add(self, name: str, pods: _SelectedPods) -> None:
        self._by_name[name] = pods
        self._by_label.setdefault(_first_label(pods.spec), {})[name] = pods

    def remove(self, name: str) -> None:
        pods = self._by_name.pop(name)
        del self._by_label[_first_label(pods.spec)][name]

    def handle_pod(self, name: str, change: Change) -> None:
        """Update the budgets that select a pod, or did so before the change."""
        labels: dict[tuple[str, str] | None, None] = {None: None}
        for pod in (change.old, change.new):
            labels.update(dict.fromkeys((pod["metadata"].get("labels") or {}).items()) if pod else {})
        for label in labels:
            for pods in self._by_label.get(label, {}).values():
                pods.update(name, change.new)


class PdbCounter:
    """Counts the pods of PodDisruptionBudgets, from the first eviction on.

    Counting all pods again for each eviction would make drains quadratic.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._namespaces: dict[str, _NamespaceBudgets] = {}

    def handle_change(self, resource: Resource, change: Change) -> None:
        """Update the counts after a write."""
        namespace, name = change.key
        budgets = self._namespaces.get(namespace)
        if budgets is None:
            return
        if resource is PODS:
            budgets.handle_pod(name, change)
        elif resource is POD_DISRUPTION_BUDGETS:
            pods = budgets.get(name)
            if pods is not None and (change.new is None or change.new.get("spec") != pods.spec):
                budgets.remove(name)

    def get_status(self, pdb: Object) -> PdbStatus:
        """Return the pods of a PodDisruptionBudget and the disruptions it allows.

        A percentage or maxUnavailable needs the expected number of pods. If their
        controllers have no replica count, no disruption is allowed.
        """
        namespace, name = object_key(pdb)
        budgets = self._namespaces.setdefault(namespace, _NamespaceBudgets())
        pods = budgets.get(name)
        if pods is None:
            pods = _SelectedPods(pdb["spec"])
            budgets.add(name, pods)
            for pod in self._store.collections[PODS].select(SelectionPredicate(namespace)):
                pods.update(pod["metadata"]["name"], pod)
        expected, desired = self._expected_and_desired(pdb["spec"], pods)
        allowed = max(0, pods.healthy - desired) if expected > 0 else 0
        return PdbStatus(expected, pods.healthy, desired, allowed)

    def _expected_and_desired(self, spec: Mapping[str, Any], pods: _SelectedPods) -> tuple[int, int]:
        """Return the expected number of pods and how many must stay healthy."""
        if "maxUnavailable" in spec:
            expected = self._expected_pods(pods)
            if expected is None:
                return 0, 0
            return expected, max(0, expected - _scale_value(spec["maxUnavailable"], expected))
        min_available = spec.get("minAvailable", 0)
        if isinstance(min_available, int):
            return len(pods), min_available
        expected = self._expected_pods(pods)
        return (0, 0) if expected is None else (expected, _scale_value(min_available, expected))

    def _expected_pods(self, pods: _SelectedPods) -> int | None:
        """Return the sum of the controllers' replicas; None if one has no replica count."""
        replicas_by_uid: dict[str, int] = {}
        for key in pods.controllers:
            controller = self._find_controller(key)
            if controller is None:
                continue
            # During a rollout the Deployment's count is right, not those of its ReplicaSets.
            root_key = _controller_key(controller)
            root = (root_key and self._find_controller(root_key)) or controller
            replicas = get_field(root, "spec", "replicas")
            if replicas is None:
                return None
            replicas_by_uid[root["metadata"]["uid"]] = replicas
        return sum(replicas_by_uid.values())

    def _find_controller(self, key: ControllerKey) -> Object | None:
        resource, owner = find_resource(key[0], key[1]), self._store.find_by_uid(key[2])
        return None if resource is None or owner is None else self._store.get(resource, owner.key)


def is_healthy(pod: Object) -> bool:
    """Return True if a pod counts as healthy: ready and not terminating."""
    return not pod["metadata"].get("deletionTimestamp") and is_ready(pod)


def is_ready(pod: Object) -> bool:
    """Return True if the Ready condition of a pod is True."""
    conditions = get_field(pod, "status", "conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _first_label(spec: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return a label that every selected pod has; None if the selector requires no value."""
    selector = spec.get("selector") or {}
    return next(iter((selector.get("matchLabels") or {}).items()), None)


def _selects(spec: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    selector = spec.get("selector")
    if selector is None:
        return False
    # Fast path: most selectors have only matchLabels, and most do not select this pod.
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return not selector.get("matchExpressions") or labels_match(decode_label_selector(selector), labels)


def _scale_value(value: int | str, total: int) -> int:
    """Return an int-or-percent value as a number; percentages round up."""
    if isinstance(value, int):
        return value
    return math.ceil(int(value.removesuffix("%")) * total / 100)


def _controller_key(obj: Object) -> ControllerKey | None:
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return reference["apiVersion"], reference["kind"], reference["uid"]
    return None
