"""Pod nomination: ``nominatedNodeName`` says for which pods a node was launched.

kube-scheduler tries this node first, and reserves its capacity against pods of
lower or equal priority. Without it, kube-scheduler may bind other pods: the last
pods of a tight plan do not fit, and pods that must share a node find none.

``PodNominator`` sets the field, ``NominationCleanup`` clears it.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from dovetail.codec.patches.pods import nomination_patch
from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.runtime.manager import SINGLETON, Controller, RequeueAfter, raise_first
from dovetail.core.pod.nomination import select_nominable
from dovetail.model.karpenter.condition_types import INITIALIZED, REGISTERED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import Pod
from dovetail.model.labels import ASSIGNED_PODS_ANNOTATION
from dovetail.model.node import NodeObject
from dovetail.ports.api_resources import NODES, PODS
from dovetail.ports.kube_errors import ApiError, Conflict, Invalid, NotFound
from dovetail.state.cluster.cache import ObjectChange
from dovetail.state.pods.assignments import has_been_initialized_for

_INTERVAL: Final = RequeueAfter(timedelta(seconds=2))


class PodNominator(ControllerBase):
    """Nominates the assigned pods of a NodeClaim.

    First at registration, before pods can be bound to the node. kube-scheduler
    clears the field after each failed attempt, so pods are nominated again when
    the node is ready and loses its last taints.
    """

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._assignments = context.assignments

    async def nominate_for(self, claim: NodeClaim, node: str) -> None:
        """Nominate pods for a node; an error is logged, and does not stop registration."""
        try:
            await self._nominate_pods(claim.name, node)
        except ApiError as error:
            # The pods are bound without it, too, mostly as planned.
            self._log.error("could not nominate pods", nodeclaim=claim.name, error=str(error))

    async def reconcile(self, name: str) -> RequeueAfter | None:
        claim = self._cache.claim(name)
        if claim is None or claim.deleting or not is_true(claim.conditions, REGISTERED):
            return None
        node = self._cache.node(claim.node_name)
        if node is None or not node.ready:
            # Too early: kube-scheduler would clear the field, and retry all pending pods.
            return None
        if has_been_initialized_for(claim, self._loop.now()):
            return None  # Pods that are still not bound are scheduled again.
        return _INTERVAL if await self._nominate_pods(claim.name, claim.node_name) else None

    async def _nominate_pods(self, claim: str, node: str) -> bool:
        """Nominate the pods that can be bound now; return False if none is pending."""
        pending = [pod for pod in self._assignments.pods_of(claim) if _is_pending(pod)]
        if not all(pod.nominated_node_name for pod in pending):
            # Nominated pods first: kube-scheduler counts their requests already.
            pending.sort(key=lambda pod: (pod.nominated_node_name != node, -pod.priority, pod.key))
            # A nomination for another node is kube-scheduler's own, after a preemption.
            nominable = [pod for pod in select_nominable(pending) if not pod.nominated_node_name]
            raise_first(await self._loop.gather([self._nominate(pod, node) for pod in nominable]))
        return bool(pending)

    async def _nominate(self, pod: Pod, node: str) -> None:
        patch = nomination_patch(pod, node)
        try:
            await self._kube.patch(PODS, pod.name, patch, pod.namespace, subresource="status")
        except (NotFound, Conflict, Invalid):
            return  # Deleted, replaced by a pod of the same name, or bound.

    def handle_node(self, change: ObjectChange) -> Iterable[str]:
        """Reconcile the NodeClaims of a node that is about to accept pods."""
        if change.new is not None:
            yield from self._get_claims(change.new)

    def handle_pod(self, change: ObjectChange) -> Iterable[str]:
        """Reconcile when a pod was bound: the next pod of a topology spread may follow."""
        old, new = change.old, change.new
        if old is not None and new is not None and new.node_name and not old.node_name:
            node = self._cache.node(new.node_name)
            yield from self._get_claims(node) if node is not None else ()

    def _get_claims(self, node: NodeObject) -> Iterable[str]:
        claims = self._cache.claims_of(node.provider_id)
        return [claim.name for claim in claims if self._assignments.pods_of(claim.name)]


class NominationCleanup(ControllerBase):
    """Clears nominations that cannot succeed.

    A nominated pod is left to kube-scheduler: it gets no other node. All pods are
    checked together, because a reconcile per pod would cost more, and only while
    pods are nominated.
    """

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._assignments = context.assignments
        self._is_polling = False

    async def reconcile(self, _: str) -> RequeueAfter | None:
        # The first check follows after the interval: kube-scheduler needs a moment to bind.
        if self._is_polling and self._cache.has_synced():
            stale = [pod for pod in self._get_nominated() if self._is_stale(pod)]
            raise_first(await self._loop.gather([self._clear(pod) for pod in stale]))
        # Read again: pods nominated meanwhile have started no other poll.
        self._is_polling = not self._cache.has_synced() or bool(self._get_nominated())
        return _INTERVAL if self._is_polling else None

    def _get_nominated(self) -> list[Pod]:
        return [pod for pod in self._cache.unbound_pods() if _is_nominated(pod)]

    def handle_pod(self, change: ObjectChange) -> Iterable[str]:
        """Begin to poll when a pod is nominated."""
        is_first = not self._is_polling and change.new is not None and _is_nominated(change.new)
        return (SINGLETON,) if is_first else ()

    def _is_stale(self, pod: Pod) -> bool:
        """Return True if the pod cannot be bound to the node that was launched for it."""
        node = self._cache.node(pod.nominated_node_name)
        if node is None:
            return True
        if self._assignments.is_assigned(pod):
            return False
        claims = [claim for claim in self._cache.claims_of(node.provider_id) if _is_assigned(claim, pod)]
        is_starting = any(not (is_true(claim.conditions, INITIALIZED) or claim.deleting) for claim in claims)
        # kube-scheduler nominates pods that preempt others; those are still being deleted.
        is_preempting = any(other.deleting for other in self._cache.pods_on(node.name))
        return bool(claims) and not is_starting and not is_preempting

    async def _clear(self, pod: Pod) -> None:
        patch = nomination_patch(pod, None)
        try:
            await self._kube.patch(PODS, pod.name, patch, pod.namespace, subresource="status")
        except (NotFound, Conflict):
            return  # Deleted, or replaced by a pod of the same name.


def controller(context: ControllerContext) -> Controller | None:
    """Return the registration of the nominator, None if its feature gate is off."""
    if not context.feature_gates.NominatedNodeName:
        return None
    reconciler = PodNominator(context)
    return Controller(
        name="nodeclaim.nomination",
        reconciler=reconciler,
        watches=((NODES, reconciler.handle_node), (PODS, reconciler.handle_pod)),
    )


def cleanup_controller(context: ControllerContext) -> Controller | None:
    """Return the registration of the cleanup, None if the feature gate is off."""
    if not context.feature_gates.NominatedNodeName:
        return None
    reconciler = NominationCleanup(context)
    return Controller(
        name="pod.nomination",
        reconciler=reconciler,
        watches=((PODS, reconciler.handle_pod),),
        initial_keys=(SINGLETON,),
    )


def _is_pending(pod: Pod) -> bool:
    return not (pod.node_name or pod.deleting or pod.is_terminal)


def _is_nominated(pod: Pod) -> bool:
    return bool(pod.nominated_node_name) and _is_pending(pod)


def _is_assigned(claim: NodeClaim, pod: Pod) -> bool:
    """Return True if a NodeClaim was created for a pod, also by an earlier process."""
    return pod.uid in claim.annotations.get(ASSIGNED_PODS_ANNOTATION, "")
