"""Knows which machines lie idle, and when a pass over them is worth its while."""

from collections.abc import Iterable
from datetime import datetime

from dovetail.controllers.runtime import SINGLETON
from dovetail.core.disruption.candidates import Machine, is_empty
from dovetail.core.podrules import is_reschedulable
from dovetail.model import labels as label_keys
from dovetail.model.conditions import is_true
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodes import NodeObject
from dovetail.ports.loop import Clock
from dovetail.state.mirror import Change, Mirror


class Idleness:
    """Follows the mirror; each handler says whether somebody should look round."""

    def __init__(self, *, mirror: Mirror, clock: Clock) -> None:
        self._mirror = mirror
        self._clock = clock
        self.short: frozenset[str] = frozenset()
        """Pools whose budgets held somebody back in the last pass."""
        self._emptied: dict[str, datetime] = {}
        """When the last pod that mattered left a node, as far as we saw it."""

    def node(self, claim: NodeClaim) -> NodeObject | None:
        nodes = self._mirror.nodes_of(claim.provider_id)
        return nodes[0] if nodes else None

    def machine(self, claim: NodeClaim) -> Machine:
        """Return a claim's machine as it is now."""
        node = self.node(claim)
        if node is None:
            return Machine(identity=claim.provider_id, claim=claim)
        return Machine(
            identity=claim.provider_id,
            claim=claim,
            node=node,
            pods=self._mirror.pods_on(node.name),
            emptied=self._emptied.get(node.name),
        )

    def on_claim(self, change: Change) -> Iterable[str]:
        """Look when a claim becomes consolidatable, or by leaving makes room in a budget."""
        old, new = change.old, change.new
        if new is None or new.deleting:
            return (SINGLETON,) if change.either.pool in self.short else ()
        if old is not None and _ripening(old) == _ripening(new):
            return ()
        return (SINGLETON,) if self._is_idle(new) else ()

    def on_pod(self, change: Change) -> Iterable[str]:
        """Look when the last pod that matters has left a node."""
        if change.new is not None and is_reschedulable(change.new):
            return ()
        node = self._mirror.node(change.either.node_name)
        if node is None:
            return ()
        if change.old is not None and is_reschedulable(change.old):
            self._emptied[node.name] = self._clock.now()
        return self._of_node(node)

    def on_node(self, change: Change) -> Iterable[str]:
        """Look when a node changes so that it may go, or another of its pool may."""
        old, new = change.old, change.new
        if new is None:
            self._emptied.pop(old.name, None)
        elif old is not None and _standing(old) == _standing(new):
            return ()
        if change.either.labels.get(label_keys.NODEPOOL) in self.short:
            return (SINGLETON,)
        return self._of_node(new) if new is not None else ()

    def on_pool(self, change: Change) -> Iterable[str]:
        """Look when somebody changes a pool's rules."""
        old, new = change.old, change.new
        if new is not None and (old is None or old.generation != new.generation):
            return (SINGLETON,)
        return ()

    def _of_node(self, node: NodeObject) -> Iterable[str]:
        claims = self._mirror.claims_of(node.provider_id)
        return (SINGLETON,) if any(self._is_idle(one) for one in claims) else ()

    def _is_idle(self, claim: NodeClaim) -> bool:
        if claim.deleting or not is_true(claim.conditions, "Consolidatable"):
            return False
        return is_empty(self.machine(claim).pods)


def _ripening(claim: NodeClaim) -> tuple[object, ...]:
    return is_true(claim.conditions, "Consolidatable"), claim.last_pod_event, claim.provider_id


def _standing(node: NodeObject) -> tuple[object, ...]:
    annotation = node.annotations.get(label_keys.DO_NOT_DISRUPT)
    return node.ready, node.deleting, node.taints, annotation, node.labels
