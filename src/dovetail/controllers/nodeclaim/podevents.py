"""Pod events: records on a NodeClaim when pods of its node last started or ended."""

from collections.abc import Iterable

from dovetail.codec.quantities import encode_time
from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.patches import patch_if_exists
from dovetail.controllers.runtime.manager import Controller
from dovetail.core.nodeclaim.pod_events import is_already_recorded, is_pod_event, should_record
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.api_resources import NODE_CLAIMS, PODS
from dovetail.state.cluster.cache import ObjectChange


class PodEventsController(ControllerBase):
    """Reconciles a node by name after a pod was bound to it, ended or is deleted."""

    async def reconcile(self, node_name: str) -> None:
        claim = self._get_claim(node_name)
        now = self._loop.now()
        if claim is not None and should_record(claim, now):
            patch = {"status": {"lastPodEventTime": encode_time(now)}}
            await patch_if_exists(self._kube, NODE_CLAIMS, claim.name, patch, subresource="status")

    def handle_pod(self, change: ObjectChange) -> Iterable[str]:
        """Reconcile the pod's node, except for events that were recorded before a restart."""
        if not is_pod_event(change.old, change.new):
            return ()
        pod = change.new
        if change.old is None:
            claim = self._get_claim(pod.node_name)
            if claim is not None and is_already_recorded(pod, claim):
                return ()
        return (pod.node_name,)

    def _get_claim(self, node_name: str) -> NodeClaim | None:
        """Return the NodeClaim of a node; None if ambiguous or of another provider."""
        node = self._cache.node(node_name)
        claims = () if node is None else self._cache.claims_of(node.provider_id)
        return claims[0] if len(claims) == 1 and claims[0].node_class.is_supported else None


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    reconciler = PodEventsController(context)
    return Controller(
        name="nodeclaim.podevents", reconciler=reconciler, watches=[(PODS, reconciler.handle_pod)]
    )
