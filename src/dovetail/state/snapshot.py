"""The picture a placement is decided on: everything that is there or on its way."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.workloads import Controller, DaemonSet
from dovetail.model.node import Node
from dovetail.model.snapshot import ClusterSnapshot
from dovetail.ports import api_resources as kinds
from dovetail.state.cluster.cache import Mirror
from dovetail.state.nodes.disruption_taint import is_only_marked
from dovetail.state.nodes.initialization_stall import is_stuck
from dovetail.state.nodes.pending_claims import Prospects
from dovetail.state.pods.assignments import Promises

_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)

Types = Mapping[str, tuple[InstanceType, ...]]


class Picture:
    """Makes snapshots of the mirror; promised pods count as bound where they will be."""

    def __init__(self, mirror: Mirror, promises: Promises) -> None:
        self._mirror = mirror
        self._promises = promises
        self._prospects = Prospects()
        self._namespaces: tuple[object, FrozenDict[str, FrozenDict[str, str]]] | None = None

    def snapshot(
        self, now: datetime, *, pending: Iterable[Pod], pools: Iterable[NodePool], types: Types
    ) -> ClusterSnapshot:
        """Return what the solver sees when it places ``pending`` into ``pools``."""
        tables = self._mirror.tables
        return ClusterSnapshot(
            now=now,
            pending=tuple(pending),
            nodes=self.nodes(now, types),
            node_pools=tuple(pools),
            instance_types=FrozenDict(dict(types)),
            daemon_sets=tuple(map(self._with_newest, tables[kinds.DAEMON_SETS].all())),
            volume_claims=tables[kinds.PERSISTENT_VOLUME_CLAIMS].all(),
            volumes=tables[kinds.PERSISTENT_VOLUMES].all(),
            storage_classes=tables[kinds.STORAGE_CLASSES].all(),
            namespaces=self._namespace_labels(),
            disruption_budgets=tables[kinds.POD_DISRUPTION_BUDGETS].all(),
            services=tables[kinds.SERVICES].all(),
            controllers=self._controllers(),
        )

    def nodes(self, now: datetime, types: Types) -> tuple[Node, ...]:
        """Return nodes, nodes to come, and claims for which nothing is bought yet."""
        there = [self._as_it_is(node, now) for node in self._mirror.joined_nodes()]
        wanted = [
            self._prospects.node(
                claim,
                types.get(claim.pool, ()),
                guess=not self._promises.kept_by(claim.name),
            )
            for claim in self._mirror.unlaunched()
            if not claim.deleting
        ]
        return tuple(map(self._with_promised, (*there, *wanted)))

    def _as_it_is(self, node: Node, now: datetime) -> Node:
        """See a node that got stuck with the taints and the room that it has now."""
        if is_only_marked(node, self._mirror):
            # It keeps those of its pods that nobody has found a place for yet.
            staying = tuple(pod for pod in node.pods if not self._promises.holds(pod))
            return replace(node, deleting=False, pods=staying)
        if node.initialized or not node.registered or not node.claim:
            return node
        claim = self._mirror.claim(node.claim)
        if claim is None or not is_stuck(claim, self._mirror, now):
            return node
        return replace(node, initialized=True)

    def _with_promised(self, node: Node) -> Node:
        if not node.claim and not node.deleting:
            return node
        promised = self._promises.kept_by(node.claim) if node.claim else ()
        pods = node.pods
        if node.deleting and self._promises:
            # Those who were promised a new place need no other.
            pods = tuple(pod for pod in pods if not self._promises.holds(pod))
        if not promised and len(pods) == len(node.pods):
            return node
        coming = tuple(replace(pod, node_name=node.name) for pod in promised)
        return replace(node, pods=(*pods, *coming))

    def _with_newest(self, daemon_set: DaemonSet) -> DaemonSet:
        """Add the newest pod: what that requests counts more than the template."""
        pods = [
            pod
            for pod in self._mirror.daemon_pods(daemon_set.namespace, daemon_set.name)
            if not (pod.terminal or pod.deleting)
        ]
        if not pods:
            return daemon_set
        newest = max(pods, key=lambda pod: (pod.created or _EARLIEST, pod.name))
        # Its affinity ties it to one node; the template's holds for all.
        spec = replace(newest.spec, node_terms=daemon_set.pod.spec.node_terms)
        return replace(daemon_set, newest=replace(newest, spec=spec))

    def _namespace_labels(self) -> FrozenDict[str, FrozenDict[str, str]]:
        known = self._mirror.tables[kinds.NAMESPACES].all()
        if self._namespaces is None or self._namespaces[0] is not known:
            labels = FrozenDict({one.name: one.labels for one in known})
            self._namespaces = (known, labels)
        return self._namespaces[1]

    def _controllers(self) -> tuple[Controller, ...]:
        tables = self._mirror.tables
        both = (*tables[kinds.REPLICA_SETS].all(), *tables[kinds.STATEFUL_SETS].all())
        return tuple(one for one in both if one is not None)
