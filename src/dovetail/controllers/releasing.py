"""Takes a pod's nomination back when nothing will come of it.

A pod that is nominated is left to kube-scheduler by everybody: it gets no other node.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from dovetail.codec.nominations import nomination_patch
from dovetail.controllers.runtime import Registration, Requeue
from dovetail.core.lifecycle import INITIALIZED
from dovetail.model.conditions import is_true
from dovetail.model.labels import PROMISED_TO
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.pods import Pod
from dovetail.model.settings import Gates
from dovetail.ports.kube import Kube
from dovetail.ports.kubeerrors import Conflict, NotFound
from dovetail.ports.resources import PODS
from dovetail.state.mirror import Change, Mirror
from dovetail.state.promises import Promises

_AGAIN: Final = Requeue(timedelta(seconds=2))


class Releasing:
    """Looks at each pod that is nominated until it is bound."""

    def __init__(self, *, mirror: Mirror, promises: Promises, kube: Kube) -> None:
        self._mirror = mirror
        self._promises = promises
        self._kube = kube

    async def reconcile(self, key: str) -> Requeue | None:
        namespace, _, name = key.partition("/")
        pod = self._mirror.pod(namespace, name)
        if pod is None or not _is_nominated(pod):
            return None
        if not self._mirror.synced() or self._stands(pod):
            return _AGAIN
        patch = nomination_patch(pod, None)
        try:
            await self._kube.patch(PODS, pod.name, patch, pod.namespace, subresource="status")
        except (NotFound, Conflict):
            pass  # It is gone, or another one by the same name now.
        return None

    def _stands(self, pod: Pod) -> bool:
        """Tell whether something may come of a nomination, or it is none of ours."""
        node = self._mirror.node(pod.nominated_node)
        if node is None:
            return False  # Nobody is bound to a node that is gone.
        if self._promises.holds(pod):
            return True
        ours = [one for one in self._mirror.claims_of(node.provider_id) if _is_for(one, pod)]
        coming = any(not (is_true(one.conditions, INITIALIZED) or one.deleting) for one in ours)
        # kube-scheduler nominates a pod that others have to leave for.
        leaving = any(one.deleting for one in self._mirror.pods_on(node.name))
        return not ours or coming or leaving


def registration(
    *, mirror: Mirror, promises: Promises, kube: Kube, gates: Gates
) -> Registration | None:
    """Return the controller, if pods are nominated at all."""
    if not gates.NominatedNodeName:
        return None
    controller = Releasing(mirror=mirror, promises=promises, kube=kube)
    return Registration(name="pod.nomination", controller=controller, watches=((PODS, _nominated),))


def _nominated(change: Change) -> Iterable[str]:
    pod = change.new
    if pod is not None and _is_nominated(pod):
        yield f"{pod.namespace}/{pod.name}"


def _is_nominated(pod: Pod) -> bool:
    return bool(pod.nominated_node) and not (pod.node_name or pod.deleting or pod.terminal)


def _is_for(claim: NodeClaim, pod: Pod) -> bool:
    """Tell whether a claim was made for a pod; it says so itself, whoever made it."""
    return pod.uid in claim.annotations.get(PROMISED_TO, "")
