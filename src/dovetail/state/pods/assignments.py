"""Pods that were promised a node: one on its way, or one with room for them."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import Pod
from dovetail.model.labels import PROMISED_TO, REPLACES
from dovetail.ports import api_resources as kinds
from dovetail.state.cluster.cache import Change, Mirror
from dovetail.state.nodes.initialization_stall import is_stuck

SETTLE = timedelta(seconds=30)
"""How long after its node is ready a pod may take to be bound before it is planned anew.

kube-scheduler looks at a pod that it has refused again within ten seconds, but a large
plan's pods come one after the other.
"""
SETTLE_NOMINATED = timedelta(minutes=5)
"""The same while one of the pods is still nominated for the node.

kube-scheduler takes the nomination from a pod that it has refused: their turn has not
come yet. After five minutes it looks at every pod again.
"""


class Promises:
    """Keeps a pod with the claim that was made for it.

    Without them every pass would pack the same waiting pods anew into the same
    nodes, and a packing that comes out a little worse buys a node for the rest.
    Claims say for whom they were made, so that a restart recalls it.
    """

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._claim_of: dict[str, str] = {}
        self._pods_of: dict[str, dict[str, tuple[str, str]]] = {}
        self._unread: set[str] = set()
        """Claims that others made, a process before this one as a rule."""
        mirror.subscribe(kinds.PODS, self._of_pod)
        mirror.subscribe(kinds.NODE_CLAIMS, self._of_claim)

    def make(self, claim: str, pods: Iterable[Pod]) -> None:
        """Promise pods the node of a claim; an earlier promise to them is over.

        Pods that run may be promised a node that is there already: they come to it
        when they have to leave theirs, and until then nobody else plans for them.

        Deciding takes a while: pods that have found a place or have gone since
        then are promised nothing.
        """
        for pod in pods:
            self._break(pod.uid)
            if self._still_wants(pod):
                self._claim_of[pod.uid] = claim
                self._pods_of.setdefault(claim, {})[pod.uid] = (pod.namespace, pod.name)

    def holds(self, pod: Pod) -> bool:
        """Tell whether a pod needs no other node for now."""
        return pod.uid in self._claim_of

    def release(self, pods: Iterable[Pod]) -> None:
        """End the promises to pods: they stay where they are after all."""
        for pod in pods:
            self._break(pod.uid)

    def kept_by(self, claim: str) -> tuple[Pod, ...]:
        """Return the pods that a claim's node is expected to take."""
        promised = self._pods_of.get(claim)
        if not promised:
            return ()
        found = (self._mirror.pod(*key) for key in promised.values())
        return tuple(pod for pod in found if pod is not None)

    def __len__(self) -> int:
        return len(self._claim_of)

    def claims(self) -> tuple[str, ...]:
        """Return the claims whose nodes are waited for."""
        return tuple(self._pods_of)

    def lapse(self, now: datetime) -> None:
        """End the promises that nothing will come of.

        Their node is there and pods that wait are still not on it, or it will never
        be of use, or the claim was never written. Pods that still have to leave
        their old node keep theirs. Recalls what was promised before a restart, once
        everything has been listed.
        """
        if self._unread and self._mirror.synced():
            self._recall()
        for name in tuple(self._pods_of):
            claim = self._mirror.claim(name)
            if claim is None or claim.deleting or is_stuck(claim, self._mirror, now):
                self._break_all(name)
            elif settled(claim, now):
                waiting = [pod for pod in self.kept_by(name) if not pod.node_name]
                unheard = any(pod.nominated_node for pod in waiting)
                if not unheard or settled(claim, now, after=SETTLE_NOMINATED):
                    self.release(waiting)

    def crowded_out(self, node_name: str) -> list[Pod]:
        """End promises of a node that others have filled; return the pods it cannot take.

        kube-scheduler binds as it likes: a pod that was to share a node with others
        may find it taken by some that were to go elsewhere.
        """
        node = self._mirror.node(node_name)
        claims = self._mirror.claims_of(node.provider_id) if node is not None else ()
        if len(claims) != 1 or not is_true(claims[0].conditions, "Initialized"):
            return []
        waiting = self.kept_by(claims[0].name)
        joined = self._mirror.joined(claims[0].provider_id) if waiting else None
        if joined is None:
            return []
        room = joined.available()
        lost = [pod for pod in waiting if not pod.spec.requests.fits_in(room)]
        for pod in lost:
            self._break(pod.uid)
        return lost

    def _recall(self) -> None:
        """Read from claims for whom they were made; of several, the newest counts."""
        claims = [claim for name in self._unread if (claim := self._mirror.claim(name))]
        self._unread.clear()
        for claim in sorted(claims, key=lambda one: (str(one.created or ""), one.name)):
            self.make(claim.name, self._named_by(claim))

    def _named_by(self, claim: NodeClaim) -> Iterator[Pod]:
        # What replaces a node was made for pods that run there until it is ready.
        moving = REPLACES in claim.annotations
        for entry in claim.annotations.get(PROMISED_TO, "").split(","):
            namespace, _, rest = entry.partition("/")
            name, _, uid = rest.partition("/")
            pod = self._mirror.pod(namespace, name)
            if pod is not None and pod.uid == uid and (moving or not pod.node_name):
                yield pod

    def _still_wants(self, pod: Pod) -> bool:
        now = self._mirror.pod(pod.namespace, pod.name)
        return (
            now is not None
            and now.uid == pod.uid
            and now.node_name == pod.node_name
            and not _is_over(now)
        )

    def _of_pod(self, change: Change) -> None:
        old, new = change.old, change.new
        if old is not None and old.uid in self._claim_of:
            if new is None or _is_over(new) or new.node_name != old.node_name:
                self._break(old.uid)

    def _of_claim(self, change: Change) -> None:
        new: NodeClaim | None = change.new
        if new is None or new.deleting:
            self._unread.discard(change.either.name)
            self._break_all(change.either.name)
        elif change.old is None and new.name not in self._pods_of:
            waited_for = not is_true(new.conditions, "Initialized") or REPLACES in new.annotations
            if PROMISED_TO in new.annotations and waited_for:
                self._unread.add(new.name)

    def _break(self, uid: str) -> None:
        claim = self._claim_of.pop(uid, None)
        if claim is not None:
            left = self._pods_of[claim]
            left.pop(uid, None)
            if not left:
                del self._pods_of[claim]

    def _break_all(self, claim: str) -> None:
        for uid in tuple(self._pods_of.get(claim, ())):
            self._break(uid)


def _is_over(pod: Pod) -> bool:
    """Tell whether a pod needs no node any more; its successor asks for itself.

    A StatefulSet makes the successor only when the pod is gone, so that its place
    is kept until then.
    """
    succeeded_late = pod.owner is not None and pod.owner.kind == "StatefulSet"
    return pod.terminal or (pod.deleting and not succeeded_late)


def settled(claim: NodeClaim, now: datetime, after: timedelta = SETTLE) -> bool:
    """Tell whether a claim's node was complete for so long that its pods should be there."""
    if not is_true(claim.conditions, "Initialized"):
        return False
    since = claim.conditions["Initialized"].since
    return since is not None and since + after <= now
