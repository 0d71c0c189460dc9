"""Disruption controller: the status of PodDisruptionBudgets."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from dovetail.ports.api_resources import POD_DISRUPTION_BUDGETS, PODS, find_resource
from dovetail.simulator.apiserver.conditions import get_conditions, set_condition
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.apiserver.pdb import is_healthy
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.selectors import decode_label_selector, labels_match
from dovetail.simulator.apiserver.storage.store import ObjectKey, object_key
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.context import ManagerContext
from dovetail.simulator.controllermanager.controller import Controller
from dovetail.simulator.controllermanager.deployment.rollout import scaled_value
from dovetail.simulator.controllermanager.owner_references import controller_of
from dovetail.simulator.controllermanager.ownership.selector_index import SelectorIndex


class _CoveredPod(NamedTuple):
    healthy: bool
    controller: Object | None


class _CoveredPods:
    """The pods that one PodDisruptionBudget covers, with running counts."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = spec
        self.healthy = 0
        self.pods: dict[str, _CoveredPod] = {}
        self.controllers: dict[str, tuple[int, Object]] = {}
        """Controller UID → how many covered pods it has, and a reference to it."""

    def update(self, pod: Object) -> bool:
        """Update a pod; return True if anything changed."""
        name, now = pod["metadata"]["name"], _CoveredPod(is_healthy(pod), controller_of(pod))
        before = self.pods.get(name)
        if before == now:
            return False
        if before is not None:
            self.remove(name)
        self.pods[name] = now
        self.healthy += now.healthy
        if now.controller is not None:
            uid = now.controller["uid"]
            count, _ = self.controllers.get(uid, (0, None))
            self.controllers[uid] = count + 1, now.controller
        return True

    def remove(self, name: str) -> bool:
        before = self.pods.pop(name, None)
        if before is None:
            return False
        self.healthy -= before.healthy
        if before.controller is not None:
            uid = before.controller["uid"]
            count, reference = self.controllers.pop(uid)
            if count > 1:
                self.controllers[uid] = count - 1, reference
        return True


class DisruptionController(Controller):
    """Updates the status of every PodDisruptionBudget.

    The eviction API counts by itself (``apiserver.pdb``); the status is for all other
    readers. Running counts avoid listing all pods for each change of one.
    """

    resource = POD_DISRUPTION_BUDGETS

    def __init__(self, context: ManagerContext) -> None:
        super().__init__(context)
        self._selectors = SelectorIndex()
        self._covered: dict[ObjectKey, _CoveredPods] = {}
        context.pods.add_handler(self._pod_changed)

    def _handle_event(self, event: WatchEvent) -> None:
        super()._handle_event(event)
        key, spec = object_key(event.object), event.object.get("spec") or {}
        covered = self._covered.get(key)
        if event.type is not EventType.DELETED and (covered is None or covered.spec != spec):
            self._select_pods(key, spec)

    def _forget(self, key: ObjectKey) -> None:
        super()._forget(key)
        self._selectors.remove(key)
        self._covered.pop(key, None)

    def _select_pods(self, key: ObjectKey, spec: Mapping[str, Any]) -> None:
        covered = self._covered[key] = _CoveredPods(spec)
        selector = spec.get("selector")
        if selector is None:
            self._selectors.remove(key)
            return
        terms = decode_label_selector(selector)
        self._selectors.update(key, terms)
        for pod in self._context.api.list(PODS, ListOptions(namespace=key[0])).items:
            if labels_match(terms, pod["metadata"].get("labels")):
                covered.update(pod)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        if pod is None or not self._covered:
            return
        name = pod["metadata"]["name"]
        after = dict.fromkeys(() if new is None else self._budgets_covering(new))
        for key in after:
            if self._covered[key].update(pod):
                self._queue.add(key)
        # Labels seldom change: most updates of pods end here.
        if old is not None and (
            new is None or old["metadata"].get("labels") != new["metadata"].get("labels")
        ):
            for key in self._budgets_covering(old):
                if key not in after and self._covered[key].remove(name):
                    self._queue.add(key)

    def _budgets_covering(self, pod: Object) -> list[ObjectKey]:
        meta = pod["metadata"]
        return list(self._selectors.matching(meta["namespace"], meta.get("labels") or {}))

    def _sync(self, key: ObjectKey) -> None:
        budget = self._context.find(POD_DISRUPTION_BUDGETS, key)
        covered = self._covered.get(key)
        if budget is None or covered is None:
            return
        healthy_counts = self._desired_healthy(key[0], budget["spec"], covered)
        expected, desired = healthy_counts or (0, 0)
        allowed = max(0, covered.healthy - desired) if expected > 0 else 0
        reason = "SufficientPods" if allowed else "InsufficientPods"
        message = "" if allowed else "no disruption is allowed"
        if healthy_counts is None:
            reason, message = "SyncFailed", "a pod's controller has no scale"
        condition = {
            "type": "DisruptionAllowed",
            "status": "True" if allowed else "False",
            "reason": reason,
            "message": message,
            "observedGeneration": budget["metadata"]["generation"],
        }
        status = {
            "observedGeneration": budget["metadata"]["generation"],
            "disruptionsAllowed": allowed,
            "currentHealthy": covered.healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": set_condition(get_conditions(budget), condition, now=self._context.timestamp()),
        }
        self._context.update_status(POD_DISRUPTION_BUDGETS, budget, status)

    def _desired_healthy(
        self, namespace: str, spec: Mapping[str, Any], covered: _CoveredPods
    ) -> tuple[int, int] | None:
        """Return the expected number of pods, and how many must stay healthy."""
        if "maxUnavailable" in spec:
            expected = self._expected(namespace, covered)
            if expected is None:
                return None
            max_unavailable = scaled_value(spec["maxUnavailable"], expected, up=True, default=0)
            return expected, max(0, expected - max_unavailable)
        min_available = spec.get("minAvailable", 0)
        if isinstance(min_available, int):
            return len(covered.pods), min_available
        expected = self._expected(namespace, covered)
        if expected is None:
            return None
        return expected, scaled_value(min_available, expected, up=True, default=0)

    def _expected(self, namespace: str, covered: _CoveredPods) -> int | None:
        """Return the sum of the controllers' replicas; None if one has no scale."""
        scales: dict[str, int] = {}
        for _, reference in covered.controllers.values():
            controller = self._controller(namespace, reference)
            if controller is None:
                continue
            owner = controller_of(controller)
            root = (owner and self._controller(namespace, owner)) or controller
            replicas = get_field(root, "spec", "replicas")
            if replicas is None:
                return None
            scales[root["metadata"]["uid"]] = replicas
        return sum(scales.values())

    def _controller(self, namespace: str, reference: Object) -> Object | None:
        resource = find_resource(reference["apiVersion"], reference["kind"])
        if resource is None:
            return None
        controller = self._context.find(resource, (namespace, reference["name"]))
        is_same = controller is not None and controller["metadata"]["uid"] == reference["uid"]
        return controller if is_same else None
