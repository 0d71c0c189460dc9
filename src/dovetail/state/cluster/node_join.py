"""Claim, node and pods of each machine joined together, again only when one has changed."""

from typing import Protocol

from dovetail.codec.inputs.node_join import expected, is_too_young, join
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.pod import Pod
from dovetail.model.node import Node, NodeObject
from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource
from dovetail.state.cluster.store import Change, Handler


class Sources(Protocol):
    """What is joined."""

    def subscribe(self, resource: Resource, handler: Handler) -> None: ...

    def node(self, name: str) -> NodeObject | None: ...

    def nodes_of(self, provider_id: str) -> tuple[NodeObject, ...]: ...

    def claims_of(self, provider_id: str) -> tuple[NodeClaim, ...]: ...

    def pods_on(self, node: str) -> tuple[Pod, ...]: ...

    def volume_limits(self, node: str) -> FrozenDict[str, int]: ...


class Joined:
    """Machines by identity: provider id, or the name of a node that has none."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._known: dict[str, Node] = {}
        self._stale: set[str] = set()
        self._all: tuple[Node, ...] | None = None
        sources.subscribe(kinds.NODES, self._of_node)
        sources.subscribe(kinds.NODE_CLAIMS, self._of_claim)
        sources.subscribe(kinds.PODS, self._of_pod)
        sources.subscribe(kinds.CSI_NODES, self._of_csi_node)

    def get(self, identity: str) -> Node | None:
        if identity in self._stale:
            self._rejoin(identity)
        return self._known.get(identity)

    def all(self) -> tuple[Node, ...]:
        for identity in tuple(self._stale):
            self._rejoin(identity)
        if self._all is None:
            # Two machines can have one name: a node, and a claim that is to become another.
            self._all = tuple(
                sorted(self._known.values(), key=lambda node: (node.name, node.provider_id))
            )
        return self._all

    def _of_node(self, change: Change) -> None:
        for node in (change.old, change.new):
            if node is not None:
                self._stale.add(_identity(node))

    def _of_claim(self, change: Change) -> None:
        for claim in (change.old, change.new):
            if claim is not None and claim.provider_id:
                self._stale.add(claim.provider_id)

    def _of_pod(self, change: Change) -> None:
        for pod in (change.old, change.new):
            if pod is not None and pod.node_name:
                node = self._sources.node(pod.node_name)
                if node is not None:
                    self._stale.add(_identity(node))

    def _of_csi_node(self, change: Change) -> None:
        node = self._sources.node(change.either.name)
        if node is not None:
            self._stale.add(_identity(node))

    def _rejoin(self, identity: str) -> None:
        self._stale.discard(identity)
        node = self._look(identity)
        if node == self._known.get(identity):
            return  # A report of its kubelet, most often: what was worked out of it still holds.
        self._all = None
        if node is None:
            self._known.pop(identity, None)
        else:
            self._known[identity] = node

    def _look(self, identity: str) -> Node | None:
        nodes = self._sources.nodes_of(identity)
        claim = min(self._sources.claims_of(identity), key=lambda one: one.name, default=None)
        nameless = self._sources.node(identity)
        if not nodes and nameless is not None and _stands_alone(nameless):
            nodes = (nameless,)
        if nodes:
            first = min(nodes, key=lambda node: node.name)
            limits = self._sources.volume_limits(first.name)
            joined = join(first, claim, self._sources.pods_on(first.name), limits)
            if not is_too_young(joined):
                return joined
        return expected(claim) if claim is not None else None


def _stands_alone(node: NodeObject) -> bool:
    """Tell whether a node without provider id is all there is to know of its machine.

    One of a pool has a claim, which speaks for it until it says whose it is.
    """
    return not node.provider_id and label_keys.NODEPOOL not in node.labels


def _identity(node: NodeObject) -> str:
    return node.provider_id or node.name
