"""State nodes: NodeClaim, Node and pods of one instance, built again when one of them changes."""

from datetime import datetime

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.core.disruption.candidates import StateNode
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS
from dovetail.state.cluster.cache import ObjectChange


class StateNodes(ControllerBase):
    """State nodes by provider ID; the same object until something in it changes."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._capacity_buffers = context.capacity_buffers
        self._host_groups = context.host_groups
        self._state_nodes: dict[str, StateNode] = {}
        self._occupied: set[str] = set()
        """Provider IDs of state nodes that are not empty."""
        self._emptied_at: dict[str, datetime] = {}
        """Node → when its last reschedulable pod left, if this process observed it."""
        self._cache.subscribe(NODES, self._handle_object)
        self._cache.subscribe(NODE_CLAIMS, self._handle_object)
        self._cache.subscribe(PODS, self._handle_pod)

    def get(self, claim: NodeClaim) -> StateNode:
        """Return NodeClaim, Node and pods of one instance."""
        known = self._state_nodes.get(claim.provider_id)
        if known is not None and known.claim is claim:
            if known.node is None:
                return known
            needed = self._capacity_buffers.needs_claim(claim.name)
            is_stuck = self._host_groups.is_stuck(known.node.name, self._loop.now())
            if known.needed_by_buffer is needed and known.has_stuck_group is is_stuck:
                return known
        state_node = self._state_nodes[claim.provider_id] = self._build(claim)
        if state_node.is_empty:
            self._occupied.discard(claim.provider_id)
        else:
            self._occupied.add(claim.provider_id)
        return state_node

    def may_be_empty(self, claim: NodeClaim) -> bool:
        """Return False if the node is known to have pods; most nodes, without building them."""
        return claim.provider_id not in self._occupied

    def record_empty(self, node: str) -> None:
        """Note that the last reschedulable pod of a node leaves now."""
        self._emptied_at[node] = self._loop.now()

    def _build(self, claim: NodeClaim) -> StateNode:
        nodes = self._cache.nodes_of(claim.provider_id)
        if not nodes:
            return StateNode(provider_id=claim.provider_id, claim=claim)
        node = nodes[0]
        joined = self._cache.joined_node(claim.provider_id)
        if joined is None or joined.name != node.name or not joined.registered:
            joined = None  # Built from the NodeClaim, or another node of the instance.
        return StateNode(
            provider_id=claim.provider_id,
            claim=claim,
            node=node,
            pods=self._cache.pods_on(node.name) if joined is None else joined.pods,
            pod_groups=None if joined is None else joined.pod_groups,
            emptied_at=self._emptied_at.get(node.name),
            needed_by_buffer=self._capacity_buffers.needs_claim(claim.name),
            has_stuck_group=self._host_groups.is_stuck(node.name, self._loop.now()),
        )

    def _handle_object(self, change: ObjectChange) -> None:
        """Forget the state node of a Node or NodeClaim."""
        for obj in (change.old, change.new):
            if obj is not None:
                self._forget(obj.provider_id)
        if change.new is None and change.resource is NODES:
            self._emptied_at.pop(change.old.name, None)

    def _handle_pod(self, change: ObjectChange) -> None:
        for pod in (change.old, change.new):
            node = self._cache.node(pod.node_name) if pod is not None and pod.node_name else None
            if node is not None:
                self._forget(node.provider_id)

    def _forget(self, provider_id: str) -> None:
        self._state_nodes.pop(provider_id, None)
        self._occupied.discard(provider_id)
