"""Disruptions that a PodDisruptionBudget allows, computed from the current pods."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dovetail.ports.api_resources import POD_DISRUPTION_BUDGETS, PODS, find_resource
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.selectors import (
    SelectionPredicate,
    decode_label_selector,
    labels_match,
)
from dovetail.simulator.apiserver.storage.store import Store


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
    return [pdb for pdb in pdbs if _selects(pdb, meta.get("labels") or {})]


def compute_pdb_status(store: Store, pdb: Object) -> PdbStatus:
    """Count the pods of a PodDisruptionBudget and the disruptions it allows.

    A percentage or maxUnavailable needs the expected number of pods. If their
    controllers have no replica count, no disruption is allowed.
    """
    selector = get_field(pdb, "spec", "selector")
    predicate = SelectionPredicate(pdb["metadata"]["namespace"], decode_label_selector(selector or {}))
    pods = store.collections[PODS].select(predicate) if selector is not None else []
    healthy = sum(is_healthy(pod) for pod in pods)
    expected, desired = _expected_and_desired(store, pdb["spec"], pods)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    return PdbStatus(expected, healthy, desired, allowed)


def is_healthy(pod: Object) -> bool:
    """Return True if a pod counts as healthy: ready and not terminating."""
    return not pod["metadata"].get("deletionTimestamp") and is_ready(pod)


def is_ready(pod: Object) -> bool:
    """Return True if the Ready condition of a pod is True."""
    conditions = get_field(pod, "status", "conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _selects(pdb: Object, labels: Mapping[str, str]) -> bool:
    selector = get_field(pdb, "spec", "selector")
    if selector is None:
        return False
    # Fast path: most selectors have only matchLabels, and most do not select this pod.
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return not selector.get("matchExpressions") or labels_match(decode_label_selector(selector), labels)


def _expected_and_desired(store: Store, spec: Mapping[str, Any], pods: Sequence[Object]) -> tuple[int, int]:
    """Return the expected number of pods and how many must stay healthy."""
    if "maxUnavailable" in spec:
        expected = _expected_pods(store, pods)
        if expected is None:
            return 0, 0
        return expected, max(0, expected - _scale_value(spec["maxUnavailable"], expected))
    min_available = spec.get("minAvailable", 0)
    if isinstance(min_available, int):
        return len(pods), min_available
    expected = _expected_pods(store, pods)
    return (0, 0) if expected is None else (expected, _scale_value(min_available, expected))


def _scale_value(value: int | str, total: int) -> int:
    """Return an int-or-percent value as a number; percentages round up."""
    if isinstance(value, int):
        return value
    return math.ceil(int(value.removesuffix("%")) * total / 100)


def _expected_pods(store: Store, pods: Sequence[Object]) -> int | None:
    """Return the sum of the controllers' replicas; None if one has no replica count."""
    replicas_by_uid: dict[str, int] = {}
    for pod in pods:
        controller = _find_controller(store, pod)
        if controller is None:
            continue
        # During a rollout the Deployment's count is right, not those of its ReplicaSets.
        root = _find_controller(store, controller) or controller
        replicas = get_field(root, "spec", "replicas")
        if replicas is None:
            return None
        replicas_by_uid[root["metadata"]["uid"]] = replicas
    return sum(replicas_by_uid.values())


def _find_controller(store: Store, obj: Object) -> Object | None:
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            resource = find_resource(reference["apiVersion"], reference["kind"])
            owner = store.find_by_uid(reference["uid"])
            if resource is not None and owner is not None:
                return store.get(resource, owner.key)
    return None
