"""Cluster snapshot: all nodes, existing and in flight, as input of a decision."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from dovetail.core.provisioning import can_provision, is_provisionable
from dovetail.core.scheduling.problem import is_usable
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.admission import PodAdmission
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.workloads import DaemonSet, WorkloadController
from dovetail.model.node import Node
from dovetail.model.snapshot import ClusterSnapshot
from dovetail.ports import api_resources as kinds
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.nodes.initialization_stall import is_initialization_stalled
from dovetail.state.nodes.pending_claims import PendingClaims
from dovetail.state.nodes.replacements import is_awaiting_replacement
from dovetail.state.pods.assignments import PodAssignments

_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)

Types = Mapping[str, tuple[InstanceType, ...]]


def build_provisioning_snapshot(cache: ClusterCache, types: Types, now: datetime) -> ClusterSnapshot:
    """Return the snapshot of a cluster that was read once, with all its NodePools.

    NodePools that are not ready, static or being deleted are only named in the reasons of
    unschedulable pods: they have no instance types.
    """
    pools = [pool for pool in cache.pools() if can_provision(pool) and types[pool.name]]
    unusable = [
        pool for pool in cache.pools() if pool.template.node_class.is_supported and not is_usable(pool)
    ]
    pending = [pod for pod in cache.unbound_pods() if is_provisionable(pod)]
    return SnapshotBuilder(cache, PodAssignments(cache)).build(
        now,
        pending=sorted(pending, key=lambda pod: pod.key),
        pools=[*pools, *unusable],
        types={pool.name: types[pool.name] for pool in pools},
    )


class SnapshotBuilder:
    """Builds snapshots from the cluster cache; assigned pods count as bound to their node."""

    def __init__(self, cache: ClusterCache, assignments: PodAssignments) -> None:
        self._cache = cache
        self._assignments = assignments
        self._pending_claims = PendingClaims()
        self._cached_namespaces: tuple[object, FrozenDict[str, FrozenDict[str, str]]] | None = None

    def build(
        self, now: datetime | None, *, pending: Iterable[Pod], pools: Iterable[NodePool], types: Types
    ) -> ClusterSnapshot:
        """Return the solver's input for scheduling ``pending`` with ``pools``.

        Without ``now``, for a recorded cluster, nodes are as recorded, and pending
        NodeClaims are left out.
        """
        stores = self._cache.stores
        return ClusterSnapshot(
            now=now,
            pending_pods=tuple(pending),
            nodes=self._cache.joined_nodes() if now is None else self.nodes(now, types),
            nodepools=tuple(pools),
            instance_types=FrozenDict(dict(types)),
            daemon_sets=self._get_daemon_sets(),
            volume_claims=stores[kinds.PERSISTENT_VOLUME_CLAIMS].all(),
            volumes=stores[kinds.PERSISTENT_VOLUMES].all(),
            storage_classes=stores[kinds.STORAGE_CLASSES].all(),
            namespaces=self._get_namespace_labels(),
            pod_disruption_budgets=stores[kinds.POD_DISRUPTION_BUDGETS].all(),
            services=stores[kinds.SERVICES].all(),
            workload_controllers=self._get_controllers(),
        )

    def nodes(self, now: datetime, types: Types) -> tuple[Node, ...]:
        """Return existing nodes, launched NodeClaims without a node, and pending NodeClaims."""
        existing = [self._adjust(node, now) for node in self._cache.joined_nodes()]
        pending = [
            self._pending_claims.as_node(
                claim, types.get(claim.pool, ()), assume_cheapest=not self._assignments.pods_of(claim.name)
            )
            for claim in self._cache.pending_claims()
            if not claim.deleting
        ]
        if not pending:
            self._pending_claims.clear()
        return tuple(map(self._add_assigned, (*existing, *pending)))

    def _adjust(self, node: Node, now: datetime) -> Node:
        """Adjust a node that awaits its replacement or whose initialization has stalled."""
        if is_awaiting_replacement(node, self._cache):
            # It keeps its pods that have no assignment yet.
            staying = tuple(pod for pod in node.pods if not self._assignments.is_assigned(pod))
            return replace(node, deleting=False, pods=staying)
        if node.initialized or not node.registered or not node.claim:
            return node
        claim = self._cache.claim(node.claim)
        if claim is None or not is_initialization_stalled(claim, self._cache, now):
            return node
        return replace(node, initialized=True)

    def _add_assigned(self, node: Node) -> Node:
        if not node.claim and not node.deleting:
            return node
        assigned = self._assignments.pods_of(node.claim) if node.claim else ()
        pods = node.pods
        if node.deleting and self._assignments:
            # Pods with an assignment need no other node.
            pods = tuple(pod for pod in pods if not self._assignments.is_assigned(pod))
        if not assigned and len(pods) == len(node.pods):
            return node
        bound = tuple(replace(pod, node_name=node.name) for pod in assigned)
        return replace(node, pods=(*pods, *bound))

    def _get_daemon_sets(self) -> tuple[DaemonSet, ...]:
        stores = self._cache.stores
        admission = PodAdmission(stores[kinds.LIMIT_RANGES].all(), stores[kinds.RUNTIME_CLASSES].all())
        admitted = (self._admit(daemon_set, admission) for daemon_set in stores[kinds.DAEMON_SETS].all())
        return tuple(daemon_set for daemon_set in admitted if daemon_set is not None)

    def _admit(self, daemon_set: DaemonSet, admission: PodAdmission) -> DaemonSet | None:
        """Return a DaemonSet with its pods' true requests; None if admission rejects its pods."""
        with_pod = self._add_newest_pod(daemon_set)
        if with_pod.newest_pod is not None:
            return with_pod
        admitted = admission.admit(daemon_set.pod, daemon_set.resources)
        return None if admitted.rejection else replace(daemon_set, pod=admitted.pod)

    def _add_newest_pod(self, daemon_set: DaemonSet) -> DaemonSet:
        """Add the newest pod: its requests take precedence over the template's."""
        pods = [
            pod
            for pod in self._cache.daemonset_pods(daemon_set.namespace, daemon_set.name)
            if not (pod.is_terminal or pod.deleting)
        ]
        if not pods:
            return daemon_set
        newest = max(pods, key=lambda pod: (pod.created or _EARLIEST, pod.name))
        # The affinity of a DaemonSet pod names its node; that of the template fits all nodes.
        spec = replace(newest.spec, node_terms=daemon_set.pod.spec.node_terms)
        return replace(daemon_set, newest_pod=replace(newest, spec=spec))

    def _get_namespace_labels(self) -> FrozenDict[str, FrozenDict[str, str]]:
        namespaces = self._cache.stores[kinds.NAMESPACES].all()
        if self._cached_namespaces is None or self._cached_namespaces[0] is not namespaces:
            labels = FrozenDict({namespace.name: namespace.labels for namespace in namespaces})
            self._cached_namespaces = (namespaces, labels)
        return self._cached_namespaces[1]

    def _get_controllers(self) -> tuple[WorkloadController, ...]:
        stores = self._cache.stores
        controllers = (*stores[kinds.REPLICA_SETS].all(), *stores[kinds.STATEFUL_SETS].all())
        return tuple(controller for controller in controllers if controller is not None)
