"""Takes a pod's nomination back when nothing will come of it.

A pod that is nominated is left to kube-scheduler by everybody: it gets no other node.
"""

from datetime import timedelta
from typing import Final

from dovetail.codec.patches.pods import nomination_patch
from dovetail.controllers.runtime.manager import SINGLETON, Registration, Requeue, raise_first
from dovetail.core.nodeclaim.lifecycle import INITIALIZED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import Pod
from dovetail.model.labels import PROMISED_TO
from dovetail.model.settings import Gates
from dovetail.ports.api_resources import PODS
from dovetail.ports.event_loop import Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import Conflict, NotFound
from dovetail.state.cluster.cache import Mirror
from dovetail.state.pods.assignments import Promises

_AGAIN: Final = Requeue(timedelta(seconds=2))
"""All at once: a look at each of ten thousand pods by itself would cost more."""


class Releasing:
    """Looks at the pods that are nominated and not bound."""

    def __init__(self, *, mirror: Mirror, promises: Promises, kube: Kube, loop: Loop) -> None:
        self._mirror = mirror
        self._promises = promises
        self._kube = kube
        self._loop = loop

    async def reconcile(self, _: str) -> Requeue | None:
        if self._mirror.synced():
            nominated = [pod for pod in self._mirror.unbound_pods() if _is_nominated(pod)]
            void = [pod for pod in nominated if not self._stands(pod)]
            raise_first(await self._loop.together([self._release(pod) for pod in void]))
        return _AGAIN

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

    async def _release(self, pod: Pod) -> None:
        patch = nomination_patch(pod, None)
        try:
            await self._kube.patch(PODS, pod.name, patch, pod.namespace, subresource="status")
        except (NotFound, Conflict):
            return  # It is gone, or another one by the same name now.


def registration(
    *, mirror: Mirror, promises: Promises, kube: Kube, loop: Loop, gates: Gates
) -> Registration | None:
    """Return the controller, if pods are nominated at all."""
    if not gates.NominatedNodeName:
        return None
    controller = Releasing(mirror=mirror, promises=promises, kube=kube, loop=loop)
    return Registration(name="pod.nomination", controller=controller, at_start=(SINGLETON,))


def _is_nominated(pod: Pod) -> bool:
    return bool(pod.nominated_node) and not (pod.deleting or pod.terminal)


def _is_for(claim: NodeClaim, pod: Pod) -> bool:
    """Tell whether a claim was made for a pod; it says so itself, whoever made it."""
    return pod.uid in claim.annotations.get(PROMISED_TO, "")
