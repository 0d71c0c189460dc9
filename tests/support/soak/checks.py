"""Checks of a soak, beyond the invariants of every simulated cluster."""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import INSTANCE_TERMINATING
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import DISRUPTED_TAINT
from dovetail.ports.api_resources import (
    DEPLOYMENTS,
    EC2_NODE_CLASSES,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    PODS,
    STATEFUL_SETS,
    Resource,
)
from dovetail.ports.kube_client import Object
from dovetail.simulator.apiserver.conditions import is_condition_true
from dovetail.simulator.apiserver.storage.frozen_object import get_field
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.workqueue import start_watch
from tests.support.soak.disturbances import UndisturbedTime
from tests.support.soak.objects import (
    BATCH_LIMIT_CPUS,
    BATCH_NODE_CPUS,
    BATCH_POOL,
    BUDGET_PERCENT,
    FREEZE_HOUR,
)

MAX_PENDING = timedelta(minutes=20)
"""Until a pod that some NodePool can take is bound; liveness takes 15 minutes."""
MAX_DEGRADED = timedelta(minutes=45)
"""Until a workload has all its pods ready, though nodes come and go."""
MAX_DELETING = timedelta(minutes=60)
"""Until finalizers are gone: node repair alone waits for 30 minutes."""
MAX_MISMATCH = timedelta(minutes=20)
"""Of NodeClaims without a node and nodes without an instance; liveness takes 15 minutes."""
_LAST = 1_000_000
"""Priority of a call that runs after all others of an instant."""


class SoakChecks:
    """Watches a cluster; ``check`` is called after every event and every minute.

    - no pod is bound twice
    - no voluntary disruption begins beyond the budgets of its NodePool
    - pods that can be placed are bound in bounded time
    - workloads have all their pods again in bounded time
    - no object is held by a finalizer for long
    - NodeClaims, nodes and instances correspond to each other
    """

    def __init__(self, cluster: SimulatedCluster, time: UndisturbedTime) -> None:
        self._cluster = cluster
        self._time = time
        self.violations: list[str] = []
        self.pending_seconds: Counter[float] = Counter()
        """Number of pods by the time from creation to binding, undisturbed and in tenths."""
        self.most_nodes = 0
        self._bound: dict[str, str] = {}
        self._pending: dict[str, tuple[Object, timedelta]] = {}
        self._since: dict[tuple[str, str], timedelta] = {}
        self._reported: set[tuple[str, str]] = set()
        self._nodes: dict[str, Object] = {}
        self._claims: dict[str, Object] = {}
        self._deleting: dict[tuple[Resource, str], tuple[str, timedelta]] = {}
        self._degraded: dict[str, timedelta] = {}
        self._disrupted: set[str] = set()
        self._budget_checks: set[str] = set()
        for resource, handle in (
            (PODS, self.handle_pod),
            (NODES, self._handle_node),
            (NODE_CLAIMS, self._handle_claim),
            (NODE_POOLS, self._watch_deletion(NODE_POOLS)),
            (EC2_NODE_CLASSES, self._watch_deletion(EC2_NODE_CLASSES)),
            (DEPLOYMENTS, self._handle_workload),
            (STATEFUL_SETS, self._handle_workload),
        ):
            start_watch(cluster.api, cluster.clock, resource, handle)

    def check(self) -> None:
        """Check everything that must not last."""
        now = self._time.elapsed()
        self.most_nodes = max(self.most_nodes, len(self._nodes))
        for uid, (pod, since) in self._pending.items():
            if self._can_be_placed(pod):
                self._expect(now - since <= MAX_PENDING, "pending", uid, f"pod {_key(pod)} is not bound")
            else:
                self._pending[uid] = (pod, now)
        for (resource, uid), (name, since) in self._deleting.items():
            text = f"{resource.kind} {name} has not been removed"
            self._expect(now - since <= MAX_DELETING, "deleting", uid, text)
        for name, since in self._degraded.items():
            self._expect(now - since <= MAX_DEGRADED, "degraded", name, f"{name} lacks ready pods")
        self._check_correspondence(now)

    def expect_none(self, what: str, names: Iterable[str]) -> None:
        """Report objects that should not exist."""
        left = sorted(names)
        if left:
            self._report(f"{what}: {', '.join(left[:10])}")

    def _check_correspondence(self, now: timedelta) -> None:
        instances = {instance.provider_id for instance in self._cluster.ec2.instances()}
        by_provider = {get_field(node, "spec", "providerID") for node in self._nodes.values()}
        mismatches = {
            ("unregistered", name)
            for name, claim in self._claims.items()
            if get_field(claim, "status", "providerID") not in by_provider
        }
        mismatches |= {
            ("without instance", name)
            for name, node in self._nodes.items()
            if label_keys.NODEPOOL in (node["metadata"].get("labels") or {})
            and get_field(node, "spec", "providerID") not in instances
        }
        for mismatch in self._since.keys() - mismatches:
            del self._since[mismatch]
        for kind, name in mismatches:
            since = self._since.setdefault((kind, name), now)
            self._expect(now - since <= MAX_MISMATCH, kind, name, f"{name} is {kind}")

    def _can_be_placed(self, pod: Object) -> bool:
        """Return False if the limits of the pod's NodePool leave no room for a node."""
        if get_field(pod, "spec", "nodeSelector", "pool") != BATCH_POOL:
            return True
        used = sum(
            Resources.parse(get_field(claim, "status", "capacity") or {}).get("cpu", 0)
            for claim in self._claims.values()
            if _pool(claim) == BATCH_POOL
        )
        return used <= 1000 * (BATCH_LIMIT_CPUS - BATCH_NODE_CPUS)

    def handle_pod(self, event: WatchEvent) -> None:
        """Record whether a pod waits or is bound, and to which node."""
        pod = event.object
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        self._record_deletion(PODS, event)
        if event.type is EventType.DELETED:
            self._pending.pop(uid, None)
            self._bound.pop(uid, None)
            return
        if not node:
            if uid in self._bound:
                self._report(f"pod {_key(pod)} lost its node {self._bound[uid]}")
            if pod["metadata"].get("deletionTimestamp") is None:
                self._pending.setdefault(uid, (pod, self._time.elapsed()))
            return
        if self._bound.setdefault(uid, node) != node:
            self._report(f"pod {_key(pod)} is bound to {node} and was bound to {self._bound[uid]}")
        if (pending := self._pending.pop(uid, None)) is not None:
            self.pending_seconds[round((self._time.elapsed() - pending[1]).total_seconds(), 1)] += 1

    def _handle_claim(self, event: WatchEvent) -> None:
        self._record_deletion(NODE_CLAIMS, event)
        name = event.object["metadata"]["name"]
        if event.type is EventType.DELETED:
            self._claims.pop(name, None)
        else:
            self._claims[name] = event.object

    def _handle_node(self, event: WatchEvent) -> None:
        self._record_deletion(NODES, event)
        node = event.object
        name = node["metadata"]["name"]
        if event.type is EventType.DELETED:
            self._nodes.pop(name, None)
            self._disrupted.discard(name)
            return
        self._nodes[name] = node
        if not _is_disrupted(node):
            self._disrupted.discard(name)
        elif name not in self._disrupted:
            self._disrupted.add(name)
            claim = self._claim_of(node)
            # Interruption, expiration and users delete the claim first; its node is tainted then.
            if claim is not None and claim["metadata"].get("deletionTimestamp") is None:
                self._schedule_budget_check(_pool(claim))

    def _claim_of(self, node: Object) -> Object | None:
        provider_id = get_field(node, "spec", "providerID")
        for claim in self._cluster.api.list(NODE_CLAIMS).items:
            if get_field(claim, "status", "providerID") == provider_id:
                return claim
        return None

    def _schedule_budget_check(self, pool: str) -> None:
        """Check once all nodes of a command are tainted, which happens at one instant."""
        if pool not in self._budget_checks:
            self._budget_checks.add(pool)
            self._cluster.clock.call_later(timedelta(), lambda: self._check_budget(pool), priority=_LAST)

    def _check_budget(self, pool: str) -> None:
        self._budget_checks.discard(pool)
        now, api = self._cluster.clock.now(), self._cluster.api
        claims = {get_field(claim, "status", "providerID"): claim for claim in api.list(NODE_CLAIMS).items}
        ending = {key for key, claim in claims.items() if is_condition_true(claim, INSTANCE_TERMINATING)}
        deleting = {key for key, claim in claims.items() if claim["metadata"].get("deletionTimestamp")}
        nodes = [
            node
            for node in api.list(NODES).items
            if _pool(node) == pool
            and node["metadata"]["labels"].get(label_keys.INITIALIZED) == "true"
            and get_field(node, "spec", "providerID") not in ending
        ]
        disrupting = [
            node
            for node in nodes
            if _is_disrupted(node)
            or node["metadata"].get("deletionTimestamp")
            or get_field(node, "spec", "providerID") in deleting
            or not is_condition_true(node, "Ready")
        ]
        allowed = 0 if now.hour == FREEZE_HOUR else -(-len(nodes) * BUDGET_PERCENT // 100)
        if len(disrupting) > allowed:
            self._report(f"{len(disrupting)} of {len(nodes)} nodes of {pool} disrupted, {allowed} allowed")

    def _handle_workload(self, event: WatchEvent) -> None:
        workload = event.object
        name = f"{workload['kind']} {_key(workload)}"
        desired = get_field(workload, "spec", "replicas")
        is_limited = workload["metadata"]["name"] == BATCH_POOL
        is_ready = (get_field(workload, "status", "readyReplicas") or 0) >= desired
        if event.type is EventType.DELETED or is_limited or is_ready:
            self._degraded.pop(name, None)
        else:
            self._degraded.setdefault(name, self._time.elapsed())

    def _watch_deletion(self, resource: Resource) -> Callable[[WatchEvent], None]:
        return lambda event: self._record_deletion(resource, event)

    def _record_deletion(self, resource: Resource, event: WatchEvent) -> None:
        meta = event.object["metadata"]
        key = (resource, meta["uid"])
        if event.type is EventType.DELETED:
            self._deleting.pop(key, None)
        elif meta.get("deletionTimestamp") is not None:
            self._deleting.setdefault(key, (_key(event.object), self._time.elapsed()))

    def _expect(self, holds: bool, kind: str, key: str, text: str) -> None:
        """Report a violation once, until it holds again."""
        if holds:
            self._reported.discard((kind, key))
        elif (kind, key) not in self._reported:
            self._reported.add((kind, key))
            self._report(text)

    def _report(self, text: str) -> None:
        now: datetime = self._cluster.clock.now()
        self.violations.append(f"{now:%d %H:%M:%S} {text}")


def _pool(obj: Object) -> str:
    return (obj["metadata"].get("labels") or {}).get(label_keys.NODEPOOL, "")


def _key(obj: Object) -> str:
    meta: Any = obj["metadata"]
    return "/".join(part for part in (meta.get("namespace"), meta["name"]) if part)


def _is_disrupted(node: Object) -> bool:
    taints = get_field(node, "spec", "taints") or ()
    return any(taint["key"] == DISRUPTED_TAINT.key for taint in taints)
