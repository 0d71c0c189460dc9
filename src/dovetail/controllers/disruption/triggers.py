"""Knows which machines lie idle, and when a pass over them is worth its while."""

from collections.abc import Iterable
from datetime import datetime

from dovetail.controllers.disruption.backoff import Setbacks
from dovetail.controllers.disruption.marks import DISRUPTION_REASON
from dovetail.controllers.disruption.scan_interval import Pace
from dovetail.controllers.runtime.manager import SINGLETON
from dovetail.core.disruption.budgets import Reason
from dovetail.core.disruption.candidates import Machine, is_empty
from dovetail.core.disruption.replacement import read_undertaking
from dovetail.core.nodeclaim.drift import DRIFTED
from dovetail.core.pod.eligibility import is_reschedulable
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.node import NodeObject
from dovetail.ports.event_loop import Clock
from dovetail.state.capacitybuffers import Buffers
from dovetail.state.cluster.cache import Change, Mirror

_NOW = (SINGLETON,)


class Idleness:
    """Follows the mirror; each handler says whether somebody should look round."""

    def __init__(self, *, mirror: Mirror, clock: Clock, buffers: Buffers) -> None:
        self._mirror = mirror
        self._buffers = buffers
        self._clock = clock
        self.short: frozenset[str] = frozenset()
        """Pools whose budgets held somebody back in the last pass."""
        self.paces = {reason: Pace() for reason in (Reason.DRIFTED, Reason.UNDERUTILIZED)}
        """Of those who look at the whole cluster."""
        self.setbacks = Setbacks()
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
        joined = self._mirror.joined(claim.provider_id)
        if joined is None or joined.name != node.name or not joined.registered:
            joined = None  # It stands for what the claim promises, or for another node.
        return Machine(
            identity=claim.provider_id,
            claim=claim,
            node=node,
            pods=self._mirror.pods_on(node.name) if joined is None else joined.pods,
            alike=None if joined is None else joined.alike,
            emptied=self._emptied.get(node.name),
            room_wanted=self._buffers.need(node.name),
        )

    def on_claim(self, change: Change) -> Iterable[str]:
        """Look when a claim ripens or drifts, or by leaving makes room in a budget."""
        old, new = change.old, change.new
        self._learn(old, new)
        if new is None or new.deleting:
            woken = self._changed()
            return _NOW if change.either.pool in self.short else woken
        if old is not None and _ripening(old) == _ripening(new):
            return ()
        woken = self._changed()
        if is_true(new.conditions, DRIFTED):
            if old is None or not is_true(old.conditions, DRIFTED):
                self.paces[Reason.DRIFTED].hurry()
            return _NOW
        return _NOW if self._is_idle(new) else woken

    def on_pod(self, change: Change) -> Iterable[str]:
        """Look when the last pod that matters has left a node."""
        old, new = change.old, change.new
        if new is not None and is_reschedulable(new):
            moved = old is None or old.node_name != new.node_name
            return self._changed() if moved and new.node_name else ()
        node = self._mirror.node(change.either.node_name)
        if node is None:
            return ()
        if old is not None and is_reschedulable(old):
            self._emptied[node.name] = self._clock.now()
            return self._of_node(node) or self._changed()
        return self._of_node(node)

    def on_node(self, change: Change) -> Iterable[str]:
        """Look when a node changes so that it may go, or another of its pool may."""
        old, new = change.old, change.new
        if new is None:
            self._emptied.pop(old.name, None)
        elif old is not None and _standing(old) == _standing(new):
            return ()
        if change.either.labels.get(label_keys.NODEPOOL) in self.short:
            return _NOW
        idle = self._of_node(new) if new is not None else ()
        return idle or self._changed()

    def on_pool(self, change: Change) -> Iterable[str]:
        """Look when somebody changes a pool's rules."""
        old, new = change.old, change.new
        if new is not None and (old is None or old.generation != new.generation):
            for pace in self.paces.values():
                pace.hurry()
            return _NOW
        return ()

    def setback(self, claim: NodeClaim, reason: Reason) -> datetime | None:
        """Tell until when a claim is not to be replaced, after what came for it last."""
        if reason is Reason.EMPTY:
            return None  # Nothing has to come for it.
        return self.setbacks.until(_key(claim, reason), self._clock.now())

    def _changed(self) -> Iterable[str]:
        """Have the whole looked at when its time has come; asked once, that is not forgotten."""
        news = [pace.touch() for pace in self.paces.values()]
        return _NOW if any(news) else ()

    def _learn(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        """Note whether what is to replace nodes comes."""
        if old is None or old.deleting:
            return
        begun = old.conditions.get(DISRUPTION_REASON)
        if begun is not None and (new is None or new.deleting):
            self.setbacks.succeeded(_key(old, begun.reason))
        was_for = read_undertaking(old)
        if was_for is None:
            return
        if new is None or new.deleting or read_undertaking(new) is None:
            for one in was_for.leaving:
                claim = self._mirror.claim(one.name)
                why = claim.conditions.get(DISRUPTION_REASON) if claim is not None else None
                if claim is not None and why is not None and not claim.deleting:
                    self.setbacks.failed(_key(claim, why.reason), self._clock.now())

    def _of_node(self, node: NodeObject) -> Iterable[str]:
        claims = self._mirror.claims_of(node.provider_id)
        return _NOW if any(self._is_idle(one) for one in claims) else ()

    def _is_idle(self, claim: NodeClaim) -> bool:
        if claim.deleting or not is_true(claim.conditions, "Consolidatable"):
            return False
        node = self.node(claim)
        return node is None or is_empty(self._mirror.pods_on(node.name))


def _key(claim: NodeClaim, reason: str) -> str:
    """Nodes that drifted share the fate of their pool: all are replaced by the same."""
    return claim.pool if reason == Reason.DRIFTED else f"{claim.pool}/{claim.name}"


def _ripening(claim: NodeClaim) -> tuple[object, ...]:
    known = claim.conditions
    kinds = ("Consolidatable", DRIFTED, "Initialized", DISRUPTION_REASON)
    return *(is_true(known, kind) for kind in kinds), claim.last_pod_event, claim.provider_id


def _standing(node: NodeObject) -> tuple[object, ...]:
    annotation = node.annotations.get(label_keys.DO_NOT_DISRUPT)
    return node.ready, node.deleting, node.taints, annotation, node.labels
