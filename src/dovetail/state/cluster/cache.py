"""The mirror: what the API server says, indexed the way controllers ask."""

from collections.abc import Collection, Iterable
from typing import Any

from dovetail.codec.kube.nodes import CsiNode
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.capacitybuffer import CapacityBuffer
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodeoverlay import NodeOverlay
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.storage import VolumeClaim
from dovetail.model.kube.workloads import DisruptionBudget
from dovetail.model.node import Node, NodeObject
from dovetail.model.settings import Gates
from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Object
from dovetail.state.cluster.decoders import VolumeAttachment, decoder, mirrored
from dovetail.state.cluster.node_join import Joined
from dovetail.state.cluster.store import Change, Handler, Index, Listing, Table

__all__ = ["Change", "Mirror"]
_NO_LIMITS: FrozenDict[str, int] = FrozenDict()


class Mirror:
    """Watch events in, answers out; holds what ``state.cluster.decoders`` lists."""

    def __init__(self, gates: Gates = Gates()) -> None:  # noqa: B008 - frozen
        shared: dict[Any, Any] = {}
        self.tables: dict[Resource, Table[Any]] = {
            resource: Table(
                resource,
                decoder(resource, shared),
                keep_wire=resource is kinds.EC2_NODE_CLASSES,
            )
            for resource in mirrored(gates)
        }
        self._pods: Table[Pod] = self.tables[kinds.PODS]
        self._nodes: Table[NodeObject] = self.tables[kinds.NODES]
        self._claims: Table[NodeClaim] = self.tables[kinds.NODE_CLAIMS]
        self._pools: Table[NodePool] = self.tables[kinds.NODE_POOLS]
        self._classes: Table[NodeClass] = self.tables[kinds.EC2_NODE_CLASSES]
        self._pods_by_node: Index[str, Pod] = Index(
            self._pods, lambda pod: (pod.node_name,), lambda pod: pod.key
        )
        self._daemons: Index[str, Pod] = Index(self._pods, _daemon_set_of, lambda pod: pod.key)
        self._nodes_by_provider: Index[str, NodeObject] = Index(
            self._nodes, _provider_of, lambda node: node.name
        )
        self._claims_by_machine: Index[str, NodeClaim] = Index(
            self._claims,
            lambda claim: (_instance_of(claim.provider_id),),
            lambda claim: claim.name,
        )
        self._claims_by_pool: Index[str, NodeClaim] = Index(
            self._claims, lambda claim: (claim.pool,), lambda claim: claim.name
        )
        self._budgets: Index[str, DisruptionBudget] = Index(
            self.tables[kinds.POD_DISRUPTION_BUDGETS],
            lambda one: (one.namespace,),
            lambda one: one.name,
        )
        self._attachments: Index[str, VolumeAttachment] = Index(
            self.tables[kinds.VOLUME_ATTACHMENTS],
            lambda one: (one.node_name,),
            lambda one: one.name,
        )
        self._joined = Joined(self)

    # What is told by the API server.

    def replace(self, resource: Resource, objects: Iterable[Object], *, revision: str = "") -> None:
        """Take a whole list of one kind: what is not in it is gone.

        ``revision`` is the list's own resource version: what we wrote after that
        is not in it, and stays.
        """
        self.tables[resource].replace(objects, revision)

    def relist(self, resource: Resource) -> Listing[Any]:
        """Begin to take a whole list that comes page by page."""
        return self.tables[resource].relist()

    def put(self, resource: Resource, obj: Object) -> None:
        """Take one object as the watch tells of it, in the watch's order."""
        self.tables[resource].put(obj)

    def answered(self, resource: Resource, obj: Object) -> None:
        """Take one object as the answer to a request shows it, however late that comes."""
        self.tables[resource].answered(obj)

    def remove(self, resource: Resource, obj: Object) -> None:
        """Take note that an object is gone, as the watch tells of it."""
        self.tables[resource].remove(obj)

    def bury(self, resource: Resource, name: str, namespace: str = "", *, uid: str) -> None:
        """Drop an object that we have just deleted, before the watch tells of it."""
        self.tables[resource].bury(name, namespace, uid)

    def subscribe(self, resource: Resource, handler: Handler) -> None:
        """Have a handler told of what is there and of every change.

        It is called in the middle of things: it may make notes, not act.
        """
        self.tables[resource].subscribe(handler)

    def synced(self) -> bool:
        """Tell whether every kind has been listed once."""
        return all(table.listed for table in self.tables.values())

    # What controllers ask.

    def claim(self, name: str) -> NodeClaim | None:
        return self._claims.get(name)

    def claims(self) -> Collection[NodeClaim]:
        return self._claims.all()

    def claims_of(self, machine: str) -> tuple[NodeClaim, ...]:
        """Return the claims of one machine: one, unless something is wrong.

        ``machine`` is its provider id or, as AWS' warnings have it, its instance id.
        """
        instance = _instance_of(machine)
        return self._claims_by_machine[instance] if instance else ()

    def claims_in(self, pool: str) -> tuple[NodeClaim, ...]:
        return self._claims_by_pool[pool]

    def node(self, name: str) -> NodeObject | None:
        return self._nodes.get(name)

    def nodes(self) -> Collection[NodeObject]:
        return self._nodes.all()

    def nodes_of(self, provider_id: str) -> tuple[NodeObject, ...]:
        """Return the nodes of one machine: none or one, unless something is wrong."""
        return self._nodes_by_provider[provider_id]

    def pod(self, namespace: str, name: str) -> Pod | None:
        return self._pods.get(name, namespace)

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        return self._pods_by_node[node] if node else ()

    def unbound_pods(self) -> tuple[Pod, ...]:
        """Return the pods that have no node."""
        return self._pods_by_node[""]

    def daemon_pods(self, namespace: str, name: str) -> tuple[Pod, ...]:
        """Return the pods of one DaemonSet."""
        return self._daemons[f"{namespace}/{name}"]

    def pool(self, name: str) -> NodePool | None:
        return self._pools.get(name)

    def pools(self) -> Collection[NodePool]:
        return self._pools.all()

    def node_class(self, name: str) -> NodeClass | None:
        return self._classes.get(name)

    def node_classes(self) -> Collection[NodeClass]:
        return self._classes.all()

    def raw_node_class(self, name: str) -> Object | None:
        """Return a node class as it is on the wire: the cloud reads more of it than we do."""
        return self._classes.wire(name)

    def overlays(self) -> Collection[NodeOverlay]:
        """Return all NodeOverlays; only where they are switched on."""
        table: Table[NodeOverlay] = self.tables[kinds.NODE_OVERLAYS]
        return table.all()

    def buffer(self, key: str) -> CapacityBuffer | None:
        """Return a CapacityBuffer by ``namespace/name``; only where they are switched on."""
        table: Table[CapacityBuffer] = self.tables[kinds.CAPACITY_BUFFERS]
        namespace, _, name = key.partition("/")
        return table.get(name, namespace)

    def budgets_for(self, pod: Pod) -> tuple[DisruptionBudget, ...]:
        """Return the PodDisruptionBudgets that speak for a pod."""
        return tuple(
            one
            for one in self._budgets[pod.namespace]
            if one.selector is not None and one.selector.matches(pod.labels)
        )

    def attachments_on(self, node: str) -> tuple[VolumeAttachment, ...]:
        return self._attachments[node]

    def volume_claim(self, namespace: str, name: str) -> VolumeClaim | None:
        table: Table[VolumeClaim] = self.tables[kinds.PERSISTENT_VOLUME_CLAIMS]
        return table.get(name, namespace)

    def volume_limits(self, node: str) -> FrozenDict[str, int]:
        """Return how many volumes each CSI driver can attach to a node."""
        table: Table[CsiNode] = self.tables[kinds.CSI_NODES]
        found = table.get(node)
        return _NO_LIMITS if found is None else found.limits

    def joined(self, identity: str) -> Node | None:
        """Return claim, node and pods of one machine together.

        ``identity`` is its provider id; the name, for a node that has none.
        """
        return self._joined.get(identity)

    def joined_nodes(self) -> tuple[Node, ...]:
        """Return every machine, by name: nodes, and launched claims without one yet."""
        return self._joined.all()

    def unlaunched(self) -> tuple[NodeClaim, ...]:
        """Return the claims for which nothing has been bought yet, as far as is known."""
        return tuple(sorted(self._claims_by_machine[""], key=lambda claim: claim.name))


def _instance_of(provider_id: str) -> str:
    return provider_id.rpartition("/")[2]


def _provider_of(node: NodeObject) -> tuple[str, ...]:
    return (node.provider_id,) if node.provider_id else ()


def _daemon_set_of(pod: Pod) -> tuple[str, ...]:
    if pod.owner is None or not pod.of_daemon_set:
        return ()
    return (f"{pod.namespace}/{pod.owner.name}",)
