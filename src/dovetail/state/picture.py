"""The picture a placement is decided on: everything that is there or on its way."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec.structs import replace

from dovetail.model import labels as label_keys
from dovetail.model.catalog import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.nodes import Node
from dovetail.model.pods import Pod
from dovetail.model.requirements import Operator
from dovetail.model.resources import Resources
from dovetail.model.snapshot import ClusterSnapshot
from dovetail.model.workloads import Controller, DaemonSet
from dovetail.ports import resources as kinds
from dovetail.state.mirror import Mirror
from dovetail.state.promises import Promises

Types = Mapping[str, tuple[InstanceType, ...]]


class Picture:
    """Makes snapshots of the mirror; promised pods count as bound where they will be."""

    def __init__(self, mirror: Mirror, promises: Promises) -> None:
        self._mirror = mirror
        self._promises = promises
        self._namespaces: tuple[object, FrozenDict[str, FrozenDict[str, str]]] | None = None

    def snapshot(
        self, now: datetime, *, pending: Iterable[Pod], pools: Iterable[NodePool], types: Types
    ) -> ClusterSnapshot:
        """Return what the solver sees when it places ``pending`` into ``pools``."""
        tables = self._mirror.tables
        return ClusterSnapshot(
            now=now,
            pending=tuple(pending),
            nodes=self.nodes(types),
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

    def nodes(self, types: Types) -> tuple[Node, ...]:
        """Return nodes, nodes to come, and claims for which nothing is bought yet."""
        there = [self._with_promised(node) for node in self._mirror.joined_nodes()]
        wanted = [
            self._with_promised(_wanted(claim, types))
            for claim in self._mirror.unlaunched()
            if not claim.deleting
        ]
        return (*there, *wanted)

    def _with_promised(self, node: Node) -> Node:
        if not node.claim and not node.deleting:
            return node
        promised = self._promises.kept_by(node.claim) if node.claim else ()
        pods = node.pods
        if node.deleting:
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
        newest = max(pods, key=lambda pod: (str(pod.created or ""), pod.name))
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


def _wanted(claim: NodeClaim, types: Types) -> Node:
    """Return the node that a claim will become, before it is known which type it gets.

    It has room for just what it was made for. Its capacity, which counts against
    the pool's limits, is that of the largest type it may become.
    """
    said = {
        spec.key: spec.values[0]
        for spec in claim.requirements
        if spec.operator is Operator.IN and len(spec.values) == 1
    }
    return Node(
        name=claim.name,
        claim=claim.name,
        labels=FrozenDict({**said, **claim.labels}),
        annotations=claim.annotations,
        taints=claim.taints,
        startup_taints=claim.startup_taints,
        claim_capacity=_largest(claim, types.get(claim.pool, ())),
        claim_allocatable=claim.requests,
        registered=False,
        initialized=False,
    )


def _largest(claim: NodeClaim, types: tuple[InstanceType, ...]) -> Resources:
    named = {
        name
        for spec in claim.requirements
        if spec.key == label_keys.INSTANCE_TYPE and spec.operator is Operator.IN
        for name in spec.values
    }
    most = claim.requests
    for one in types:
        if one.name in named:
            most = most.at_least(one.capacity)
    return most
