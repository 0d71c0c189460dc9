"""Tells kube-scheduler for which pods a node was bought.

kube-scheduler tries a pod's ``nominatedNodeName`` first and lets nobody of lower or equal
priority take the room of those that are nominated. Without it, it packs as it likes: the
last pods of a tight plan find their node full, and pods that have to share a host may
never find one with room for all of them.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from dovetail.codec.patches.pods import nomination_patch
from dovetail.controllers.runtime.manager import Registration, Requeue, raise_first
from dovetail.core.nodeclaim.lifecycle import REGISTERED
from dovetail.core.pod.nomination import nominable
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import Pod
from dovetail.model.node import NodeObject
from dovetail.model.settings import Gates
from dovetail.ports.api_resources import NODES, PODS
from dovetail.ports.event_loop import Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import ApiError, Conflict, Invalid, NotFound
from dovetail.ports.telemetry import Log
from dovetail.state.cluster.cache import Change, Mirror
from dovetail.state.pods.assignments import Promises, settled

_AGAIN: Final = Requeue(timedelta(seconds=2))


class Nominating:
    """Has pods nominated from the moment on in which their node may take any.

    It is asked at registration, before anybody may go to the node. When the node is ready,
    and its last taints are about to go, it tells those again that kube-scheduler has
    forgotten: it does whenever it looks at a pod in vain.
    """

    def __init__(
        self, *, mirror: Mirror, promises: Promises, kube: Kube, loop: Loop, log: Log
    ) -> None:
        self._mirror = mirror
        self._promises = promises
        self._kube = kube
        self._loop = loop
        self._log = log

    async def before_pods_come(self, claim: NodeClaim, node: str) -> None:
        try:
            await self._nominate(claim.name, node)
        except ApiError as error:
            # The pods are bound without it, too; mostly as planned.
            self._log.error("could not nominate pods", nodeclaim=claim.name, error=str(error))

    async def reconcile(self, key: str) -> Requeue | None:
        claim = self._mirror.claim(key)
        if claim is None or claim.deleting or not is_true(claim.conditions, REGISTERED):
            return None
        node = self._mirror.node(claim.node_name)
        if node is None or not node.ready:
            # It would be forgotten again: whoever is told too early is looked at in vain,
            # and each time all others that wait are looked at, too.
            return None
        if settled(claim, self._loop.now()):
            return None  # Whom kube-scheduler refuses now is to be planned for anew.
        return _AGAIN if await self._nominate(claim.name, claim.node_name) else None

    async def _nominate(self, claim: str, node: str) -> bool:
        """Tell the pods of a claim that may be told now; False: nobody waits for it."""
        waiting = [pod for pod in self._promises.kept_by(claim) if _waits(pod)]
        if not all(pod.nominated_node for pod in waiting):
            # Those that know come first: kube-scheduler counts them already.
            waiting.sort(key=lambda pod: (pod.nominated_node != node, -pod.priority, pod.key))
            told = await self._loop.together(
                # Another node's name is kube-scheduler's own: others are leaving for the pod.
                [self._tell(pod, node) for pod in nominable(waiting) if not pod.nominated_node]
            )
            raise_first(told)
        return bool(waiting)

    async def _tell(self, pod: Pod, node: str) -> None:
        patch = nomination_patch(pod, node)
        try:
            await self._kube.patch(PODS, pod.name, patch, pod.namespace, subresource="status")
        except (NotFound, Conflict, Invalid):
            return  # It is gone, another one by the same name now, or bound.

    def on_node(self, change: Change) -> Iterable[str]:
        """Look again at a node that is about to take pods."""
        if change.new is not None:
            yield from self._awaited(change.new)

    def on_pod(self, change: Change) -> Iterable[str]:
        """Look for the next one of a spread when a pod was bound."""
        old, new = change.old, change.new
        if old is not None and new is not None and new.node_name and not old.node_name:
            node = self._mirror.node(new.node_name)
            yield from self._awaited(node) if node is not None else ()

    def _awaited(self, node: NodeObject) -> Iterable[str]:
        claims = self._mirror.claims_of(node.provider_id)
        return [claim.name for claim in claims if self._promises.kept_by(claim.name)]


def registration(
    *, mirror: Mirror, promises: Promises, kube: Kube, loop: Loop, log: Log, gates: Gates
) -> Registration | None:
    """Return the controller that keeps pods nominated, if it is wanted."""
    if not gates.NominatedNodeName:
        return None
    controller = Nominating(mirror=mirror, promises=promises, kube=kube, loop=loop, log=log)
    return Registration(
        name="nodeclaim.nomination",
        controller=controller,
        watches=((NODES, controller.on_node), (PODS, controller.on_pod)),
    )


def _waits(pod: Pod) -> bool:
    return not (pod.node_name or pod.deleting or pod.terminal)
