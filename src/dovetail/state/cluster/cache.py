"""Cluster cache: one store per kind, with the indexes that controllers need."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from dovetail.codec.kube.nodes import CsiNode
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.capacitybuffer import CapacityBuffer
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodeoverlay import NodeOverlay
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.storage import PersistentVolumeClaim
from dovetail.model.kube.workloads import PodDisruptionBudget
from dovetail.model.node import Node, NodeObject
from dovetail.model.settings import FeatureGates
from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Object
from dovetail.state.cluster.decoders import SharedValues, VolumeAttachment, cached_resources, create_decoder
from dovetail.state.cluster.node_join import NodeJoin
from dovetail.state.cluster.store import EventHandler, Index, ObjectChange, Relist, Store

__all__ = ["ClusterCache", "ObjectChange"]
_NO_LIMITS: FrozenDict[str, int] = FrozenDict()


class ClusterCache:
    """All stores of the kinds in ``state.cluster.decoders``, with indexes.

    Reads are lookups in dictionaries and never wait. Objects are immutable.
    """

    def __init__(self, gates: FeatureGates = FeatureGates(), *, shares_parts: bool = False) -> None:  # noqa: B008 - frozen
        """Create an empty cache.

        With ``shares_parts``, objects in wire format are kept, and parts that a newer version
        shares are not decoded again. For an API server in this process: others share none.
        """
        shared = SharedValues()
        self.stores: dict[Resource, Store[Any]] = {
            resource: Store(
                resource,
                create_decoder(resource, shared),
                keep_raw=shares_parts or resource is kinds.EC2_NODE_CLASSES,
            )
            for resource in cached_resources(gates)
        }
        self._pods: Store[Pod] = self.stores[kinds.PODS]
        self._nodes: Store[NodeObject] = self.stores[kinds.NODES]
        self._claims: Store[NodeClaim] = self.stores[kinds.NODE_CLAIMS]
        self._pools: Store[NodePool] = self.stores[kinds.NODE_POOLS]
        self._classes: Store[EC2NodeClass] = self.stores[kinds.EC2_NODE_CLASSES]
        self._pods_by_node: Index[str, Pod] = Index(
            self._pods, lambda pod: (pod.node_name,), lambda pod: pod.key
        )
        self._pods_by_daemonset: Index[str, Pod] = Index(self._pods, _get_daemonsets, lambda pod: pod.key)
        self._nodes_by_provider: Index[str, NodeObject] = Index(
            self._nodes, _get_provider_ids, lambda node: node.name
        )
        self._claims_by_instance: Index[str, NodeClaim] = Index(
            self._claims, lambda claim: (_get_instance_id(claim.provider_id),), lambda claim: claim.name
        )
        self._claims_by_pool: Index[str, NodeClaim] = Index(
            self._claims, lambda claim: (claim.pool,), lambda claim: claim.name
        )
        self._pdbs_by_namespace: Index[str, PodDisruptionBudget] = Index(
            self.stores[kinds.POD_DISRUPTION_BUDGETS], lambda pdb: (pdb.namespace,), lambda pdb: pdb.name
        )
        self._attachments_by_node: Index[str, VolumeAttachment] = Index(
            self.stores[kinds.VOLUME_ATTACHMENTS],
            lambda attachment: (attachment.node_name,),
            lambda attachment: attachment.name,
        )
        self._node_join = NodeJoin(self)

    @classmethod
    def from_objects(cls, objects: Mapping[Resource, Iterable[Any]]) -> "ClusterCache":
        """Return a cache with decoded objects that no watch updates."""
        cache = cls()
        for resource, store in cache.stores.items():
            store.load(objects.get(resource, ()))
        return cache

    @classmethod
    def from_raw(cls, objects: Iterable[Mapping[str, Any]]) -> "ClusterCache":
        """Return a cache with objects in wire format, as of a dump; unknown kinds are left out."""
        by_kind: dict[tuple[str, str], list[Any]] = {}
        for obj in objects:
            group = str(obj.get("apiVersion") or "").rpartition("/")[0]
            by_kind.setdefault((group, str(obj.get("kind"))), []).append(obj)
        cache = cls()
        for resource in cache.stores:
            cache.replace(resource, by_kind.get((resource.group, resource.kind), []))
        return cache

    # -- Writes: lists, watch events and responses of the API server -------------------------

    def replace(self, resource: Resource, objects: Iterable[Object], *, revision: str = "") -> None:
        """Replace all objects of a kind by a list.

        ``revision`` is the resource version of the list. Objects written after it
        are not in the list and are kept.
        """
        self.stores[resource].replace(objects, revision)

    def begin_relist(self, resource: Resource) -> Relist[Any]:
        """Begin to replace all objects of a kind by a list that arrives in pages."""
        return self.stores[resource].begin_relist()

    def apply_event(self, resource: Resource, obj: Object) -> None:
        """Apply an added or modified object of a watch, in the order of the watch."""
        self.stores[resource].apply_event(obj)

    def apply_response(self, resource: Resource, obj: Object) -> None:
        """Apply an object from a response to a request, however late it arrives."""
        self.stores[resource].apply_response(obj)

    def delete(self, resource: Resource, obj: Object) -> None:
        """Apply a deletion of a watch."""
        self.stores[resource].delete(obj)

    def mark_deleted(self, resource: Resource, name: str, namespace: str = "", *, uid: str) -> None:
        """Remove an object that this process deleted, before the watch reports it."""
        self.stores[resource].mark_deleted(name, namespace, uid)

    def subscribe(self, resource: Resource, handler: EventHandler) -> None:
        """Call a handler for every existing object and every later change.

        Handlers run in the middle of a write: they may take notes and add keys to
        work queues, but must not write to the cache.
        """
        self.stores[resource].subscribe(handler)

    def has_synced(self) -> bool:
        """Return True if every kind has been listed once."""
        return all(store.has_synced for store in self.stores.values())

    # -- Reads -------------------------------------------------------------------------------

    def objects(self) -> dict[Resource, tuple[Any, ...]]:
        """Return all decoded objects, by kind."""
        return {resource: store.all() for resource, store in self.stores.items()}

    def claim(self, name: str) -> NodeClaim | None:
        return self._claims.get(name)

    def claims(self) -> Collection[NodeClaim]:
        return self._claims.all()

    def claims_of(self, instance: str) -> tuple[NodeClaim, ...]:
        """Return the NodeClaims of an instance: more than one is an error.

        ``instance`` is a provider ID or, as in interruption messages, an instance ID.
        """
        instance = _get_instance_id(instance)
        return self._claims_by_instance[instance] if instance else ()

    def claims_in(self, pool: str) -> tuple[NodeClaim, ...]:
        return self._claims_by_pool[pool]

    def node(self, name: str) -> NodeObject | None:
        return self._nodes.get(name)

    def nodes(self) -> Collection[NodeObject]:
        return self._nodes.all()

    def nodes_of(self, provider_id: str) -> tuple[NodeObject, ...]:
        """Return the nodes with a provider ID: more than one is an error."""
        return self._nodes_by_provider[provider_id]

    def pod(self, namespace: str, name: str) -> Pod | None:
        return self._pods.get(name, namespace)

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        return self._pods_by_node[node] if node else ()

    def unbound_pods(self) -> tuple[Pod, ...]:
        """Return the pods without a node."""
        return self._pods_by_node[""]

    def daemonset_pods(self, namespace: str, name: str) -> tuple[Pod, ...]:
        """Return the pods of one DaemonSet."""
        return self._pods_by_daemonset[f"{namespace}/{name}"]

    def pool(self, name: str) -> NodePool | None:
        return self._pools.get(name)

    def pools(self) -> Collection[NodePool]:
        return self._pools.all()

    def node_class(self, name: str) -> EC2NodeClass | None:
        return self._classes.get(name)

    def node_classes(self) -> Collection[EC2NodeClass]:
        return self._classes.all()

    def raw_node_class(self, name: str) -> Object | None:
        """Return an undecoded node class: cloud providers read more of it than the model has."""
        return self._classes.raw(name)

    def overlays(self) -> Collection[NodeOverlay]:
        """Return all NodeOverlays; KeyError if their feature gate is off."""
        store: Store[NodeOverlay] = self.stores[kinds.NODE_OVERLAYS]
        return store.all()

    def buffer(self, key: str) -> CapacityBuffer | None:
        """Return a CapacityBuffer by ``namespace/name``; KeyError if the feature gate is off."""
        store: Store[CapacityBuffer] = self.stores[kinds.CAPACITY_BUFFERS]
        namespace, _, name = key.partition("/")
        return store.get(name, namespace)

    def buffers(self) -> Collection[CapacityBuffer]:
        """Return all CapacityBuffers; KeyError if their feature gate is off."""
        store: Store[CapacityBuffer] = self.stores[kinds.CAPACITY_BUFFERS]
        return store.all()

    def pdbs_for(self, pod: Pod) -> tuple[PodDisruptionBudget, ...]:
        """Return the PodDisruptionBudgets that select a pod."""
        return tuple(
            pdb
            for pdb in self._pdbs_by_namespace[pod.namespace]
            if pdb.selector is not None and pdb.selector.matches(pod.labels)
        )

    def attachments_on(self, node: str) -> tuple[VolumeAttachment, ...]:
        return self._attachments_by_node[node]

    def volume_claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        store: Store[PersistentVolumeClaim] = self.stores[kinds.PERSISTENT_VOLUME_CLAIMS]
        return store.get(name, namespace)

    def volume_limits(self, node: str) -> FrozenDict[str, int]:
        """Return the maximum number of volumes on a node, by CSI driver."""
        store: Store[CsiNode] = self.stores[kinds.CSI_NODES]
        csi_node = store.get(node)
        return _NO_LIMITS if csi_node is None else csi_node.limits

    def joined_node(self, provider_id: str) -> Node | None:
        """Return NodeClaim, Node and pods of one instance together.

        ``provider_id`` is the name for a node that has no provider ID.
        """
        return self._node_join.get(provider_id)

    def joined_nodes(self) -> tuple[Node, ...]:
        """Return all joined nodes by name, including launched NodeClaims without a node."""
        return self._node_join.all()

    def pending_claims(self) -> tuple[NodeClaim, ...]:
        """Return the NodeClaims whose instance is not known yet, by name."""
        return tuple(sorted(self._claims_by_instance[""], key=lambda claim: claim.name))


def _get_instance_id(provider_id: str) -> str:
    return provider_id.rpartition("/")[2]


def _get_provider_ids(node: NodeObject) -> tuple[str, ...]:
    return (node.provider_id,) if node.provider_id else ()


def _get_daemonsets(pod: Pod) -> tuple[str, ...]:
    if pod.owner is None or not pod.is_owned_by_daemon_set:
        return ()
    return (f"{pod.namespace}/{pod.owner.name}",)
