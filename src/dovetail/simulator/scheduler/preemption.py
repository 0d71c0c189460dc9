"""Preemption: pods of lower priority that make room for a pending pod."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from dovetail.ports.api_resources import POD_DISRUPTION_BUDGETS, PODS
from dovetail.simulator.apiserver.interface import find_object
from dovetail.simulator.apiserver.options import DeleteOptions, ListOptions
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.selectors import decode_label_selector, labels_match
from dovetail.simulator.scheduler.bound_pods import BoundPod, BoundPods
from dovetail.simulator.scheduler.framework import SchedulingFramework
from dovetail.simulator.scheduler.queue import QueuedPod
from dovetail.simulator.scheduler.status import StatusWriter
from dovetail.simulator.scheduler.volumes import VolumeConstraints

_MAX_CANDIDATES: Final = 100
"""Nodes that are compared; kube-scheduler's minimum."""
_PRIORITY_OFFSET: Final = 2**31
"""Makes priorities positive, so that fewer victims have a smaller sum."""


class Candidate(msgspec.Struct, frozen=True):
    """A node, and the pods that have to leave it."""

    node: str
    victims: tuple[BoundPod, ...]
    violations: int
    """Victims whose PodDisruptionBudget allows no disruption."""

    @property
    def rank(self) -> tuple[int, int, int, int, str]:
        """Order of kube-scheduler: budgets, then the least important and the fewest victims."""
        priorities = [victim.priority for victim in self.victims]
        total = sum(priority + _PRIORITY_OFFSET for priority in priorities)
        return self.violations, max(priorities), total, len(priorities), self.node


class Preemption:
    """Selects victims and deletes them.

    Costs nothing while no bound pod has a lower priority than the pending ones.
    """

    def __init__(
        self,
        api: ApiServer,
        bound_pods: BoundPods,
        framework: SchedulingFramework,
        status_writer: StatusWriter,
    ) -> None:
        self._api = api
        self._bound_pods = bound_pods
        self._framework = framework
        self._status_writer = status_writer

    def find(self, pod: QueuedPod, volumes: VolumeConstraints) -> Candidate | None:
        """Return the best node to preempt pods on; None if there is none."""
        if not self._bound_pods.has_below(pod.priority) or pod.spec.get("preemptionPolicy") == "Never":
            return None
        if self.awaits_victims(pod):
            return None
        candidates: list[Candidate] = []
        for node in self._bound_pods.nodes_below(pod.priority):
            candidate = self._evaluate(pod, volumes, node)
            if candidate is not None:
                candidates.append(candidate)
                if len(candidates) == _MAX_CANDIDATES:
                    break
        return min(candidates, key=lambda candidate: candidate.rank, default=None)

    def delete_victims(self, pod: QueuedPod, candidate: Candidate) -> None:
        """Delete the victims, with an Event and the condition DisruptionTarget for each."""
        for victim in candidate.victims:
            obj = find_object(self._api, PODS, *victim.key)
            if obj is None or obj["metadata"]["uid"] != victim.uid:
                continue
            message = f"Preempted by pod {pod.uid} on node {candidate.node}"
            self._status_writer.record_preempted(obj, message)
            name, namespace = victim.key
            self._api.delete(PODS, name, namespace, options=DeleteOptions(uid=victim.uid))

    def awaits_victims(self, pod: QueuedPod) -> bool:
        """Return True while victims on the pod's nominated node are terminating."""
        return bool(pod.nominated) and any(
            not other.live and other.priority < pod.priority
            for other in self._bound_pods.on_node(pod.nominated)
        )

    def _evaluate(self, pod: QueuedPod, volumes: VolumeConstraints, node: str) -> Candidate | None:
        """Remove all pods of lower priority, then return as many of them as fit."""
        lower = [other for other in self._bound_pods.on_node(node) if other.priority < pod.priority]
        budgets = self._exhausted_budgets(lower)
        # Pods with a violated budget are kept first, then the most important ones.
        lower.sort(key=lambda other: (other.uid not in budgets, -other.priority, other.uid))
        removed = list(lower)
        for other in lower:
            self._bound_pods.suspend(other)
        try:
            if self._framework.check_node(pod.classified, volumes, node) is None:
                return None
            for other in lower:
                self._bound_pods.resume(other)
                removed.remove(other)
                if self._framework.check_node(pod.classified, volumes, node) is None:
                    self._bound_pods.suspend(other)
                    removed.append(other)
            victims = tuple(removed)
        finally:
            for other in removed:
                self._bound_pods.resume(other)
        if not victims:
            return None
        return Candidate(node, victims, sum(victim.uid in budgets for victim in victims))

    def _exhausted_budgets(self, pods: Sequence[BoundPod]) -> frozenset[str]:
        """Return the UIDs of pods that no budget allows to disrupt."""
        protected = set()
        for namespace in {pod.key[1] for pod in pods}:
            budgets = self._api.list(POD_DISRUPTION_BUDGETS, ListOptions(namespace=namespace)).items
            exhausted = [
                budget for budget in budgets if not get_field(budget, "status", "disruptionsAllowed")
            ]
            for pod in pods:
                if pod.key[1] == namespace and _is_selected(pod, exhausted):
                    protected.add(pod.uid)
        return frozenset(protected)


def _is_selected(pod: BoundPod, budgets: Iterable[Object]) -> bool:
    labels = pod.pod_class.labels
    return any(
        selector is not None and labels_match(decode_label_selector(selector), labels)
        for selector in (get_field(budget, "spec", "selector") for budget in budgets)
    )
