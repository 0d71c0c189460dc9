"""Join of NodeClaim, Node and pods of each instance, updated when one of them changes."""

from typing import Protocol

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.condition_types import INSTANCE_TERMINATING
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import NO_RESOURCES
from dovetail.model.kube.taints import DISRUPTED_TAINT
from dovetail.model.node import Node, NodeObject
from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource
from dovetail.state.cluster.store import EventHandler, ObjectChange


class Sources(Protocol):
    """Stores to join; implemented by ``ClusterCache``."""

    def subscribe(self, resource: Resource, handler: EventHandler) -> None: ...

    def node(self, name: str) -> NodeObject | None: ...

    def nodes_of(self, provider_id: str) -> tuple[NodeObject, ...]: ...

    def claims_of(self, provider_id: str) -> tuple[NodeClaim, ...]: ...

    def pods_on(self, node: str) -> tuple[Pod, ...]: ...

    def volume_limits(self, node: str) -> FrozenDict[str, int]: ...


class NodeJoin:
    """Joined nodes by provider ID, or by name for a node without one.

    Changes only mark a node as stale; it is joined again when it is read.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._nodes: dict[str, Node] = {}
        self._stale: set[str] = set()
        self._all: tuple[Node, ...] | None = None
        sources.subscribe(kinds.NODES, self._on_node)
        sources.subscribe(kinds.NODE_CLAIMS, self._on_claim)
        sources.subscribe(kinds.PODS, self._on_pod)
        sources.subscribe(kinds.CSI_NODES, self._on_csi_node)

    def get(self, provider_id: str) -> Node | None:
        if provider_id in self._stale:
            self._rejoin(provider_id)
        return self._nodes.get(provider_id)

    def all(self) -> tuple[Node, ...]:
        for key in tuple(self._stale):
            self._rejoin(key)
        if self._all is None:
            # Two can have one name: a node, and a NodeClaim that has no node yet.
            self._all = tuple(sorted(self._nodes.values(), key=lambda node: (node.name, node.provider_id)))
        return self._all

    def _on_node(self, change: ObjectChange) -> None:
        for node in (change.old, change.new):
            if node is not None:
                self._stale.add(_get_key(node))

    def _on_claim(self, change: ObjectChange) -> None:
        for claim in (change.old, change.new):
            if claim is not None and claim.provider_id:
                self._stale.add(claim.provider_id)

    def _on_pod(self, change: ObjectChange) -> None:
        for pod in (change.old, change.new):
            if pod is not None and pod.node_name:
                node = self._sources.node(pod.node_name)
                if node is not None:
                    self._stale.add(_get_key(node))

    def _on_csi_node(self, change: ObjectChange) -> None:
        node = self._sources.node(change.latest.name)
        if node is not None:
            self._stale.add(_get_key(node))

    def _rejoin(self, provider_id: str) -> None:
        self._stale.discard(provider_id)
        node = self._join(provider_id)
        if node == self._nodes.get(provider_id):
            return  # Mostly a heartbeat of the kubelet; keep values cached on the old object.
        self._all = None
        if node is None:
            self._nodes.pop(provider_id, None)
        else:
            self._nodes[provider_id] = node

    def _join(self, provider_id: str) -> Node | None:
        nodes = self._sources.nodes_of(provider_id)
        claim = min(self._sources.claims_of(provider_id), key=lambda claim: claim.name, default=None)
        by_name = self._sources.node(provider_id)
        if not nodes and by_name is not None and _is_unmanaged(by_name):
            nodes = (by_name,)
        if nodes:
            first = min(nodes, key=lambda node: node.name)
            limits = self._sources.volume_limits(first.name)
            joined = _join(first, claim, self._sources.pods_on(first.name), limits)
            if not _lacks_instance_type(joined):
                return joined
        return _build_expected_node(claim) if claim is not None else None


def _is_unmanaged(node: NodeObject) -> bool:
    """Return True for a node without provider ID that belongs to no NodePool.

    A node of a NodePool is represented by its NodeClaim until it has a provider ID.
    """
    return not node.provider_id and label_keys.NODEPOOL not in node.labels


def _get_key(node: NodeObject) -> str:
    return node.provider_id or node.name


def _join(
    node: NodeObject, claim: NodeClaim | None, pods: tuple[Pod, ...], volume_limits: FrozenDict[str, int]
) -> Node:
    """Return a node with its NodeClaim, whose labels and taints count until it registers."""
    is_managed = claim is not None or label_keys.NODEPOOL in node.labels
    registered = not is_managed or node.labels.get(label_keys.REGISTERED) == "true"
    source = claim if claim is not None and not registered else node
    is_ending = _has_disrupted_taint(node) or _is_deleting(claim)
    return Node(
        name=node.name,
        claim=claim.name if claim else "",
        labels=source.labels,
        annotations=source.annotations,
        taints=source.taints,
        startup_taints=claim.startup_taints if claim else (),
        capacity=node.capacity,
        allocatable=node.allocatable,
        claim_capacity=claim.capacity if claim else NO_RESOURCES,
        claim_allocatable=claim.allocatable if claim else NO_RESOURCES,
        registered=registered,
        initialized=not is_managed or node.labels.get(label_keys.INITIALIZED) == "true",
        deleting=node.deleting or is_ending,
        keeps_limits=node.deleting and claim is not None and not is_ending,
        provider_id=node.provider_id,
        pods=pods,
        volume_limits=volume_limits,
    )


def _build_expected_node(claim: NodeClaim) -> Node:
    """Return the node that a launched NodeClaim will become."""
    return Node(
        name=claim.node_name or claim.name,
        claim=claim.name,
        labels=claim.labels,
        annotations=claim.annotations,
        taints=claim.taints,
        startup_taints=claim.startup_taints,
        claim_capacity=claim.capacity,
        claim_allocatable=claim.allocatable,
        registered=False,
        initialized=False,
        deleting=_is_deleting(claim),
        provider_id=claim.provider_id,
    )


def _is_deleting(claim: NodeClaim | None) -> bool:
    return claim is not None and (claim.deleting or is_true(claim.conditions, INSTANCE_TERMINATING))


def _has_disrupted_taint(node: NodeObject) -> bool:
    """Return True for a node that a disruption command, maybe of another process, has tainted."""
    disrupted = (DISRUPTED_TAINT.key, DISRUPTED_TAINT.effect)
    return any((taint.key, taint.effect) == disrupted for taint in node.taints)


def _lacks_instance_type(node: Node) -> bool:
    """Return True if a new node has no instance type label yet: its resources are unknown."""
    return node.is_managed and not node.initialized and label_keys.INSTANCE_TYPE not in node.labels
