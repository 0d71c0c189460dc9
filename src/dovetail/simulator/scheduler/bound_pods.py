"""Pods that are bound to nodes, and the resources they use."""

from collections import Counter

from dovetail.simulator.scheduler.equivalence import PodClass
from dovetail.simulator.scheduler.framework import SchedulingFramework
from dovetail.simulator.scheduler.node_table import NodeTable
from dovetail.simulator.scheduler.pod_counts import PodCounts
from dovetail.simulator.scheduler.volumes import Attachment, VolumeFilters


class BoundPod:
    """A pod that is bound to a node, or will be once its volumes are bound."""

    __slots__ = ("attachments", "key", "live", "node", "pod_class", "priority", "slot", "uid")

    def __init__(
        self,
        uid: str,
        key: tuple[str, str],
        pod_class: PodClass,
        node: str,
        *,
        priority: int,
        attachments: tuple[Attachment, ...],
    ) -> None:
        self.uid = uid
        self.key = key
        """Name and namespace."""
        self.priority = priority
        self.pod_class = pod_class
        self.node = node
        self.attachments = attachments
        self.slot: int | None = None
        """None while the node does not exist."""
        self.live = True
        """False once the pod is terminating."""


class BoundPods:
    """Updates node resources, pod counts, ports and volumes as pods come and go."""

    def __init__(
        self,
        table: NodeTable,
        pod_counts: PodCounts,
        volume_filters: VolumeFilters,
        framework: SchedulingFramework,
    ) -> None:
        self._table = table
        self._pod_counts = pod_counts
        self._volume_filters = volume_filters
        self._framework = framework
        self.pods: dict[str, BoundPod] = {}
        self._by_node: dict[str, dict[str, BoundPod]] = {}
        self._priorities: Counter[int] = Counter()
        """Number of pods of each priority."""

    def add(self, bound_pod: BoundPod) -> None:
        self.pods[bound_pod.uid] = bound_pod
        self._priorities[bound_pod.priority] += 1
        self._by_node.setdefault(bound_pod.node, {})[bound_pod.uid] = bound_pod
        slot = self._table.slots.get(bound_pod.node)
        if slot is not None:
            self._assign(bound_pod, slot)

    def remove(self, uid: str) -> BoundPod | None:
        """Release what a pod used; return the pod."""
        bound_pod = self.pods.pop(uid, None)
        if bound_pod is None:
            return None
        self._priorities[bound_pod.priority] -= 1
        if not self._priorities[bound_pod.priority]:
            del self._priorities[bound_pod.priority]
        on_node = self._by_node[bound_pod.node]
        del on_node[uid]
        if not on_node:
            del self._by_node[bound_pod.node]
        self._unassign(bound_pod)
        return bound_pod

    def has_below(self, priority: int) -> bool:
        """Return True if a bound pod has a lower priority."""
        return any(other < priority for other in self._priorities)

    def nodes_below(self, priority: int) -> list[str]:
        """Return the nodes with pods of lower priority, in order."""
        nodes = {pod.node for pod in self.pods.values() if pod.priority < priority and pod.slot is not None}
        return sorted(nodes)

    def on_node(self, name: str) -> list[BoundPod]:
        """Return the pods of a node."""
        return list(self._by_node.get(name, {}).values())

    def suspend(self, bound_pod: BoundPod) -> None:
        """Release what a pod uses, as if it were gone, until ``resume``."""
        self._unassign(bound_pod)

    def resume(self, bound_pod: BoundPod) -> None:
        self._assign(bound_pod, self._table.slots[bound_pod.node])

    def mark_terminating(self, bound_pod: BoundPod) -> None:
        """Exclude a terminating pod from the counts of live pods."""
        bound_pod.live = False
        if bound_pod.slot is not None:
            self._pod_counts.add_live(bound_pod.pod_class, bound_pod.slot, -1)

    def add_node(self, name: str, slot: int) -> None:
        self._volume_filters.add_node(name, slot)
        for bound_pod in self._by_node.get(name, {}).values():
            self._assign(bound_pod, slot)

    def remove_node(self, name: str) -> list[BoundPod]:
        """Release what the node's pods used; return them."""
        on_node = list(self._by_node.get(name, {}).values())
        for bound_pod in on_node:
            self._unassign(bound_pod)
        return on_node

    def _assign(self, bound_pod: BoundPod, slot: int) -> None:
        bound_pod.slot = slot
        self._count(bound_pod, slot, 1)
        spec = bound_pod.pod_class.spec
        if spec.host_ports:
            self._framework.ports.add(spec.host_ports, slot)
        if bound_pod.attachments:
            self._volume_filters.attach(bound_pod.attachments, slot)

    def _unassign(self, bound_pod: BoundPod) -> None:
        slot = bound_pod.slot
        if slot is None:
            return
        self._count(bound_pod, slot, -1)
        spec = bound_pod.pod_class.spec
        if spec.host_ports:
            self._framework.ports.remove(spec.host_ports, slot)
        if bound_pod.attachments:
            self._volume_filters.detach(bound_pod.attachments, slot)
        bound_pod.slot = None

    def _count(self, bound_pod: BoundPod, slot: int, sign: int) -> None:
        pod_class = bound_pod.pod_class
        self._table.add_requests(pod_class.requests, slot, sign)
        scoring = self._framework.scoring
        scoring.scoring_cpu.values[slot] += sign * pod_class.scoring_requests[0]
        scoring.scoring_memory.values[slot] += sign * pod_class.scoring_requests[1]
        self._pod_counts.add(pod_class, slot, sign, live=bound_pod.live)
