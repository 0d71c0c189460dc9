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


class PdbCounter:
    """Counts the pods of PodDisruptionBudgets, from the first eviction on.

    Counting all pods again for each eviction would make drains quadratic.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._selected: dict[str, dict[str, _SelectedPods]] = {}
        """Namespace → name → pods."""

    def handle_change(self, resource: Resource, change: Change) -> None:
        """Update the counts after a write."""
        namespace, name = change.key
        selected = self._selected.get(namespace)
        if not selected:
            return
        if resource is PODS:
            for pods in selected.values():
                pods.update(name, change.new)
        elif resource is POD_DISRUPTION_BUDGETS and name in selected:
            if change.new is None or change.new.get("spec") != selected[name].spec:
                del selected[name]

    def get_status(self, pdb: Object) -> PdbStatus:
        """Return the pods of a PodDisruptionBudget and the disruptions it allows.

        A percentage or maxUnavailable needs the expected number of pods. If their
        controllers have no replica count, no disruption is allowed.
        """
        namespace, name = object_key(pdb)
        by_name = self._selected.setdefault(namespace, {})
        pods = by_name.get(name)
        if pods is None:
            pods = by_name[name] = _SelectedPods(pdb["spec"])
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
