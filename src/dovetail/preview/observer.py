"""Observer of a simulated cluster: evictions, availability, nodes, price.

It watches pods, nodes and NodeClaims like a controller, and writes nothing.
"""

from array import array
from collections import defaultdict, deque
from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from dovetail.logs import LogLine
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import DISRUPTION_REASON, INITIALIZED, INSTANCE_TERMINATING
from dovetail.model.kube.taints import DISRUPTED_TAINT
from dovetail.ports.api_resources import DEPLOYMENTS, NODE_CLAIMS, NODES, PODS, REPLICA_SETS, STATEFUL_SETS
from dovetail.ports.kube_errors import NotFound
from dovetail.preview.report import Sample, thin_samples
from dovetail.simulator.apiserver.conditions import is_condition_true
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.workqueue import start_watch

_EVICTED: Final = "EvictionByEvictionAPI"
_UNSCHEDULABLE_AFTER: Final = 600.0
"""Seconds; a pod that ends earlier without a node was short-lived, not unschedulable."""
_MAX_SAMPLES: Final = 8_000
WORKLOAD: Final = "dovetail.sh/workload"
"""Annotation of pods without a controller: the name they are counted under."""
_SCALED: Final = {resource.kind: resource for resource in (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS)}
INTERRUPTED: Final = "Interrupted"
EXPIRED: Final = "Expired"
DELETED: Final = "Deleted"

Workload = tuple[str, str, str]
"""Namespace, name and kind."""


class ObservedNode(msgspec.Struct, kw_only=True):
    """A NodeClaim and its node, from launch to end."""

    claim: str
    nodepool: str
    node: str = ""
    created: datetime | None = None
    """None: it existed at the start."""
    disrupted: datetime | None = None
    """When its disruption began: taint, deletion or replacement."""
    gone: datetime | None = None
    """When its instance began to terminate: budgets do not count it any more."""
    reason: str = ""
    initialized: bool = False


class ObservedWorkload(msgspec.Struct, kw_only=True):
    """Pods of one workload."""

    replicas: int = 0
    """Replicas at the start."""
    ready: int = 0
    least_ready: int | None = None
    evictions: int = 0
    killed: int = 0
    pending_seconds: float = 0.0
    moved: deque[int] = msgspec.field(default_factory=deque)
    """Moves of pods that left and have no successor yet."""


class _ObservedPod(msgspec.Struct, kw_only=True):
    """State of a pod, as last observed."""

    name: str
    workload: Workload
    created: datetime
    moves: int = 0
    bound: bool = False
    ready: bool = False
    terminating: bool = False
    finished: bool = False
    counted: bool = False
    """Its eviction or end is counted."""


class Eviction(msgspec.Struct, frozen=True):
    """One eviction."""

    at: datetime
    workload: Workload
    reason: str = ""
    """Why its node is disrupted."""


class Observer:
    """Records what happens in a cluster from now on."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self.started = cluster.clock.now()
        self.last_move = self.started
        """When a node or pod last appeared, moved or went."""
        self.nodes: dict[str, ObservedNode] = {}
        """By name of the NodeClaim."""
        self.workloads: dict[Workload, ObservedWorkload] = defaultdict(ObservedWorkload)
        self.evictions: list[Eviction] = []
        self.most_moved: tuple[str, Workload, int] | None = None
        self.samples: list[Sample] = []
        self.waits = array("d")
        """Seconds from creation to node, of each pod that got one."""
        self.unschedulable = 0
        """Pods that waited for 10 minutes or more and never got a node."""
        self._node_names: set[str] = set()
        self._pods: dict[str, _ObservedPod] = {}
        self._draining: set[str] = set()
        """Nodes that are disrupted or deleted."""
        self._parents: dict[tuple[str, str], Workload] = {}
        """Namespace and name of a ReplicaSet → its Deployment, or itself."""
        self._pending = 0
        self._interrupted: set[str] = set()
        self._claims: dict[str, ObservedNode] = {}
        """By name of the node."""
        self._known = False
        self._load()
        self._known = True
        self._stops = [
            start_watch(cluster.api, cluster.clock, NODES, self._handle_node),
            start_watch(cluster.api, cluster.clock, NODE_CLAIMS, self._handle_claim),
            start_watch(cluster.api, cluster.clock, PODS, self._handle_pod),
        ]
        cluster.log.listeners.append(self._handle_log)
        cluster.ec2.billing.listeners.append(lambda _: self._sample())

    @property
    def now(self) -> datetime:
        """Virtual time."""
        return self._clock.now()

    @property
    def unsettled(self) -> int:
        """Pods that are pending, starting or terminating, and nodes that come or go."""
        pods = sum(
            not pod.finished and (pod.terminating or not pod.ready) and pod.workload[2] != "Job"
            for pod in self._pods.values()
        )
        return pods + sum(
            node.gone is None and (node.disrupted is not None or not node.initialized)
            for node in self.nodes.values()
        )

    def stop(self) -> None:
        """Stop all watches."""
        for stop in self._stops:
            stop()

    def pending_pods(self) -> Iterable[tuple[str, Workload]]:
        """Yield the pods that have no node now."""
        for pod in self._pods.values():
            if not (pod.bound or pod.finished or pod.terminating):
                yield pod.name, pod.workload

    def finish(self) -> None:
        """Count the time of pods that are still pending."""
        for pod in self._pods.values():
            if not (pod.bound or pod.finished):
                self._end_pending(pod)
        self._sample()

    def _load(self) -> None:
        """Read what exists at the start; none of it counts as a move."""
        for resource, handle in (
            (NODES, self._handle_node),
            (NODE_CLAIMS, self._handle_claim),
            (PODS, self._handle_pod),
        ):
            for obj in self._cluster.api.list(resource).items:
                handle(WatchEvent(EventType.ADDED, obj))
        for (namespace, name, kind), workload in self.workloads.items():
            workload.replicas = self._get_replicas(namespace, name, kind)
            workload.least_ready = workload.ready
        self._sample()

    def _get_replicas(self, namespace: str, name: str, kind: str) -> int:
        resource = _SCALED.get(kind)
        if resource is None:
            return 0
        try:
            obj = self._cluster.api.get(resource, name, namespace)
        except NotFound:
            return 0
        replicas = get_field(obj, "spec", "replicas")
        return 1 if replicas is None else int(replicas)

    def final_replicas(self, workload: Workload) -> int:
        """Return the replicas that a workload has now."""
        return self._get_replicas(*workload)

    # Nodes and NodeClaims.

    def _handle_node(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        if event.type is EventType.DELETED:
            self._draining.discard(name)
            self._node_names.discard(name)
            self._claims.pop(name, None)
            self._move()
            return
        if name not in self._node_names:
            self._node_names.add(name)
            self._move()
        taints = get_field(event.object, "spec", "taints") or ()
        is_disrupted = any(taint["key"] == DISRUPTED_TAINT.key for taint in taints)
        if is_disrupted or event.object["metadata"].get("deletionTimestamp"):
            self._draining.add(name)

    def _handle_claim(self, event: WatchEvent) -> None:
        claim = event.object
        meta = claim["metadata"]
        node = self.nodes.get(meta["name"])
        if node is None:
            if event.type is EventType.DELETED:
                return
            node = self.nodes[meta["name"]] = ObservedNode(
                claim=meta["name"],
                nodepool=(meta.get("labels") or {}).get(label_keys.NODEPOOL, ""),
                created=self._clock.now() if self._known else None,
            )
            self._move()
        node.node = get_field(claim, "status", "nodeName") or node.node
        self._claims[node.node] = node
        if not node.initialized and is_condition_true(claim, INITIALIZED):
            node.initialized = True
            self._move()
        reason = _disruption_reason(claim)
        if event.type is EventType.DELETED or meta.get("deletionTimestamp") or reason:
            self._disrupt(node, reason or self._other_reason(claim))
        elif node.disrupted is not None:
            node.disrupted, node.reason = None, ""  # The command was rolled back.
        if node.gone is None and (
            event.type is EventType.DELETED or is_condition_true(claim, INSTANCE_TERMINATING)
        ):
            node.gone = self._clock.now()
            self._move()

    def _disrupt(self, node: ObservedNode, reason: str) -> None:
        if node.disrupted is None:
            node.disrupted = self._clock.now()
            node.reason = reason
            self._move()

    def _other_reason(self, claim: Object) -> str:
        meta = claim["metadata"]
        if meta["name"] in self._interrupted:
            return INTERRUPTED
        cache = self._cluster.operator.cache
        known = cache.claim(meta["name"])
        if known is None or known.created is None or known.expire_after is None:
            return DELETED
        return EXPIRED if known.created + known.expire_after <= self._clock.now() else DELETED

    def _handle_log(self, line: LogLine) -> None:
        if "interruption message" in line.message:
            self._interrupted.add(str(line.fields.get("nodeclaim", "")))

    # Pods.

    def _handle_pod(self, event: WatchEvent) -> None:
        pod = event.object
        meta = pod["metadata"]
        observed = self._pods.get(meta["uid"])
        if event.type is EventType.DELETED:
            if observed is not None:
                self._remove_pod(pod, observed)
            return
        if observed is None:
            workload = self._find_workload(pod)
            if workload is None:
                return
            observed = self._add_pod(pod, workload)
        self._update_pod(pod, observed)

    def _add_pod(self, pod: Object, workload: Workload) -> _ObservedPod:
        meta = pod["metadata"]
        observed = _ObservedPod(
            name=f"{meta['namespace']}/{meta['name']}", workload=workload, created=self._clock.now()
        )
        successions = self.workloads[workload].moved
        if self._known and successions:
            observed.moves = successions.popleft()
            if self.most_moved is None or observed.moves > self.most_moved[2]:
                self.most_moved = (observed.name, workload, observed.moves)
        self._pods[meta["uid"]] = observed
        self._pending += 1
        self._move_pod(observed)
        return observed

    def _update_pod(self, pod: Object, observed: _ObservedPod) -> None:
        meta = pod["metadata"]
        if not observed.bound and pod["spec"].get("nodeName"):
            observed.bound = True
            self._end_pending(observed)
            self._move_pod(observed)
        phase = (pod.get("status") or {}).get("phase")
        if not observed.finished and phase in ("Succeeded", "Failed"):
            observed.finished = True
            self._set_ready(observed, False)
            self._count_end(pod, observed)
            if not observed.bound:
                self._end_pending(observed)
            self._move_pod(observed)
        if meta.get("deletionTimestamp") and not observed.terminating:
            observed.terminating = True
            self._count_end(pod, observed)
            self._move_pod(observed)
        if not observed.finished:
            ready = not observed.terminating and is_condition_true(pod, "Ready")
            self._set_ready(observed, ready)

    def _remove_pod(self, pod: Object, observed: _ObservedPod) -> None:
        self._count_end(pod, observed)
        self._set_ready(observed, False)
        if not (observed.bound or observed.finished):
            self._end_pending(observed)
        del self._pods[pod["metadata"]["uid"]]
        self._move_pod(observed)

    def _end_pending(self, observed: _ObservedPod) -> None:
        self._pending -= 1
        waited = (self._clock.now() - observed.created).total_seconds()
        if observed.bound and self._known:
            self.waits.append(waited)
        elif waited >= _UNSCHEDULABLE_AFTER:
            self.unschedulable += 1
        workload = self.workloads[observed.workload]
        workload.pending_seconds = max(workload.pending_seconds, waited)

    def _set_ready(self, observed: _ObservedPod, ready: bool) -> None:
        if observed.ready == ready:
            return
        observed.ready = ready
        workload = self.workloads[observed.workload]
        workload.ready += 1 if ready else -1
        if self._known and workload.least_ready is not None:
            workload.least_ready = min(workload.least_ready, workload.ready)
        self._move_pod(observed)

    def _count_end(self, pod: Object, observed: _ObservedPod) -> None:
        """Count the eviction of a pod, or its end on a node that goes; once."""
        if observed.counted or not self._known:
            return
        reason = _disruption_target(pod)
        node = get_field(pod, "spec", "nodeName") or ""
        if not reason and node not in self._draining:
            return  # Scaled down, rolled out, or finished.
        if not reason and observed.finished and not observed.terminating:
            return
        observed.counted = True
        workload = self.workloads[observed.workload]
        workload.moved.append(observed.moves + 1)
        if reason == _EVICTED:
            workload.evictions += 1
            claim = self._claims.get(node)
            cause = "" if claim is None else claim.reason
            self.evictions.append(Eviction(self._clock.now(), observed.workload, cause))
        else:
            workload.killed += 1

    def _find_workload(self, pod: Object) -> Workload | None:
        """Return the workload of a pod; None for pods of DaemonSets and static pods."""
        meta = pod["metadata"]
        owner = next((ref for ref in meta.get("ownerReferences") or () if ref.get("controller")), None)
        namespace = meta["namespace"]
        if owner is None:
            return (namespace, (meta.get("annotations") or {}).get(WORKLOAD) or meta["name"], "Pod")
        if owner["kind"] in ("DaemonSet", "Node"):
            return None
        if owner["kind"] != "ReplicaSet":
            return (namespace, owner["name"], owner["kind"])
        key = (namespace, owner["name"])
        if key not in self._parents:
            self._parents[key] = self._find_deployment(*key)
        return self._parents[key]

    def _find_deployment(self, namespace: str, name: str) -> Workload:
        try:
            parent = self._cluster.api.get(REPLICA_SETS, name, namespace)
        except NotFound:
            return (namespace, name, "ReplicaSet")
        for reference in parent["metadata"].get("ownerReferences") or ():
            if reference.get("controller"):
                return (namespace, reference["name"], reference["kind"])
        return (namespace, name, "ReplicaSet")

    # Time.

    def _move_pod(self, observed: _ObservedPod) -> None:
        """Note a change of a pod; those of Jobs come and go for ever."""
        if observed.workload[2] == "Job":
            self._sample()
        else:
            self._move()

    def _move(self) -> None:
        if self._known:
            self.last_move = self._clock.now()
            self._sample()

    def _sample(self) -> None:
        sample = Sample(
            (self._clock.now() - self.started).total_seconds(),
            len(self._node_names),
            round(self._cluster.ec2.billing.price_per_hour(), 6),
            self._pending,
        )
        if self.samples:
            last = self.samples[-1]
            if (last.nodes, last.price, last.pending) == (sample.nodes, sample.price, sample.pending):
                return
            if last.at == sample.at:
                self.samples.pop()
        self.samples.append(sample)
        if len(self.samples) > _MAX_SAMPLES:
            self.samples = list(thin_samples(self.samples, intervals=_MAX_SAMPLES // 8))


def _disruption_reason(claim: Object) -> str:
    for condition in get_field(claim, "status", "conditions") or ():
        if condition["type"] == DISRUPTION_REASON and condition["status"] == "True":
            return str(condition.get("reason") or "")
    return ""


def _disruption_target(pod: Object) -> str:
    for condition in get_field(pod, "status", "conditions") or ():
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            return str(condition.get("reason") or "")
    return ""
