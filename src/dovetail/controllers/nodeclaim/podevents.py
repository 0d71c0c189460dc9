"""Notes on claims when a pod last came to their node, ended, or began to go."""

from collections.abc import Hashable, Iterable

from dovetail.codec.quantities import show_instant
from dovetail.controllers.runtime.manager import Registration
from dovetail.core.nodeclaim.pod_events import noted_before, stirs, worth_noting
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.api_resources import NODE_CLAIMS, PODS
from dovetail.ports.event_loop import Clock, Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import NotFound
from dovetail.state.cluster.cache import Change, Mirror


class PodEvents:
    """Its keys are names of nodes on which something happened just now."""

    def __init__(self, *, mirror: Mirror, kube: Kube, clock: Clock) -> None:
        self._mirror = mirror
        self._kube = kube
        self._clock = clock

    async def reconcile(self, node_name: str) -> None:
        claim = claim_of_node(self._mirror, node_name)
        now = self._clock.now()
        if claim is None or not worth_noting(claim, now):
            return
        patch = {"status": {"lastPodEventTime": show_instant(now)}}
        try:
            await self._kube.patch(NODE_CLAIMS, claim.name, patch, subresource="status")
        except NotFound:
            return  # It went meanwhile.


def claim_of_node(mirror: Mirror, node_name: str) -> NodeClaim | None:
    """Return the one claim of a node that is ours to write to."""
    node = mirror.node(node_name)
    claims = () if node is None else mirror.claims_of(node.provider_id)
    if len(claims) != 1 or not claims[0].node_class.supported:
        return None
    return claims[0]


def registration(*, mirror: Mirror, kube: Kube, loop: Loop) -> Registration:
    """Return the controller."""

    def nodes_stirred(change: Change) -> Iterable[Hashable]:
        if not stirs(change.old, change.new):
            return ()
        pod = change.new
        if change.old is None:
            claim = claim_of_node(mirror, pod.node_name)
            if claim is not None and noted_before(pod, claim):
                return ()
        return (pod.node_name,)

    return Registration(
        name="nodeclaim.podevents",
        controller=PodEvents(mirror=mirror, kube=kube, clock=loop),
        watches=[(PODS, nodes_stirred)],
    )
