"""What a PodDisruptionBudget allows, from the pods as they are now."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dovetail.ports.api_resources import POD_DISRUPTION_BUDGETS, PODS, resource_of_kind
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.storage.selectors import Selection, labels_match, terms_of
from dovetail.simulator.apiserver.storage.store import Store


class Allowance(msgspec.Struct, frozen=True):
    """The counts of a budget's status."""

    expected: int
    healthy: int
    desired: int
    allowed: int


def budgets_over(store: Store, pod: Object) -> list[Object]:
    """Return the budgets that cover a pod, by name."""
    meta = pod["metadata"]
    budgets = store.collections[POD_DISRUPTION_BUDGETS].select(Selection(meta["namespace"]))
    return [one for one in budgets if _covers(one, meta.get("labels") or {})]


def allowance(store: Store, budget: Object) -> Allowance:
    """Count a budget's pods and say how many more may be disrupted.

    A budget that needs to know how many pods there should be (a percentage or
    maxUnavailable) allows nothing while that cannot be told from their controllers.
    """
    selector = look(budget, "spec", "selector")
    which = Selection(budget["metadata"]["namespace"], terms_of(selector or {}))
    pods = store.collections[PODS].select(which) if selector is not None else []
    healthy = sum(is_healthy(one) for one in pods)
    expected, desired = _wanted(store, budget["spec"], pods)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    return Allowance(expected, healthy, desired, allowed)


def is_healthy(pod: Object) -> bool:
    """Tell whether a pod counts as available: ready, and nobody is deleting it."""
    return not pod["metadata"].get("deletionTimestamp") and is_ready(pod)


def is_ready(pod: Object) -> bool:
    """Tell whether a pod says it is ready."""
    conditions = look(pod, "status", "conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _covers(budget: Object, labels: Mapping[str, str]) -> bool:
    selector = look(budget, "spec", "selector")
    if selector is None:
        return False
    # Most selectors are nothing but these, and most budgets are another's.
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return not selector.get("matchExpressions") or labels_match(terms_of(selector), labels)


def _wanted(store: Store, spec: Mapping[str, Any], pods: Sequence[Object]) -> tuple[int, int]:
    """Return how many pods there should be and how many must stay healthy."""
    if "maxUnavailable" in spec:
        expected = _expected(store, pods)
        if expected is None:
            return 0, 0
        return expected, max(0, expected - _share(spec["maxUnavailable"], expected))
    least = spec.get("minAvailable", 0)
    if isinstance(least, int):
        return len(pods), least
    expected = _expected(store, pods)
    return (0, 0) if expected is None else (expected, _share(least, expected))


def _share(amount: int | str, whole: int) -> int:
    if isinstance(amount, int):
        return amount
    return math.ceil(int(amount.removesuffix("%")) * whole / 100)


def _expected(store: Store, pods: Sequence[Object]) -> int | None:
    """Return the sum of what the pods' controllers want; None when one does not say."""
    scales: dict[str, int] = {}
    for pod in pods:
        controller = _controller(store, pod)
        if controller is None:
            continue
        # A Deployment's word counts, not that of the ReplicaSets it is shifting between.
        top = _controller(store, controller) or controller
        replicas = look(top, "spec", "replicas")
        if replicas is None:
            return None
        scales[top["metadata"]["uid"]] = replicas
    return sum(scales.values())


def _controller(store: Store, obj: Object) -> Object | None:
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            resource = resource_of_kind(reference["apiVersion"], reference["kind"])
            address = store.find(reference["uid"])
            if resource is not None and address is not None:
                return store.get(resource, address.key)
    return None
