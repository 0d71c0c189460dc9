"""Eviction queue: evicts pods of draining nodes, and deletes them near the deadline."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.event_reasons import DISRUPTED, EVICTED, FAILED_DRAINING
from dovetail.controllers.pod.disruption_events import publish_disruption_event
from dovetail.controllers.runtime.manager import Controller, RequeueAfter
from dovetail.controllers.runtime.workqueue import Backoff
from dovetail.core.node.drain import (
    EvictionAction,
    choose_eviction_action,
    get_force_time,
    get_forced_grace_seconds,
)
from dovetail.model.karpenter.condition_types import DISRUPTION_REASON
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import Pod
from dovetail.ports.api_resources import POD_DISRUPTION_BUDGETS, PODS
from dovetail.ports.kube_errors import ApiError, Conflict, InternalError, NotFound, TooManyRequests
from dovetail.ports.metrics import PODS_DRAINED, PODS_EVICTION_REQUESTS, CodeLabels, ReasonLabels
from dovetail.state.cluster.cache import ObjectChange
from dovetail.state.pods.evictions import Eviction, PodKey

NAME: Final = "eviction-queue"
BACKOFF: Final = Backoff(timedelta(milliseconds=100), timedelta(seconds=10))
FORCEFUL_TERMINATION: Final = "Forceful Termination"
"""Reason for pods of a node that no disruption method selected."""
_NO_LIMIT: Final = 2**31
_SEVERAL_PDBS: Final = "more than one PodDisruptionBudget"


class EvictionQueue(ControllerBase):
    """Evicts one pod per key. The key includes the UID, so that no successor is evicted."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._evictions = context.evictions

    async def reconcile(self, key: PodKey) -> RequeueAfter | None:
        """Evict or delete a pod, or wait until that is due."""
        # Observe.
        now = self._loop.now()
        eviction = self._evictions.get(key)
        namespace, name, uid = key
        pod = self._cache.pod(namespace, name)
        if eviction is None or pod is None or pod.uid != uid:
            self._evictions.remove(key)
            return None

        # Decide.
        action = choose_eviction_action(pod, eviction.deadline, now)

        # Act and report.
        publish_disruption_event(self._events, pod, now)
        if action is EvictionAction.WAIT:
            return self._requeue(eviction, pod, now)
        if action is EvictionAction.DELETE and eviction.deadline is not None:
            await self._delete(pod, get_forced_grace_seconds(eviction.deadline, now))
        elif action is EvictionAction.EVICT and not await self._evict(pod, eviction):
            return self._requeue(eviction, pod, now)
        self._evictions.remove(key)
        return None

    async def _delete(self, pod: Pod, grace: int) -> None:
        try:
            await self._kube.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_seconds=grace)
        except (NotFound, Conflict):
            return  # Gone, or replaced by a pod of the same name.
        self._log.debug("deleting pod", pod=pod.key, node=pod.node_name, grace_seconds=grace)
        self._events.publish(
            pod, DISRUPTED, f"Deleting the pod before the deadline of its node: {pod.node_name}"
        )
        self._count_drained(pod)

    async def _evict(self, pod: Pod, eviction: Eviction) -> bool:
        """Request an eviction; return False if it must be retried."""
        try:
            await self._kube.evict(pod.name, pod.namespace, uid=pod.uid)
        except (NotFound, Conflict) as error:
            self._count_request(str(error.code))
            return True
        except TooManyRequests as error:
            self._count_request(str(error.code))
            for pdb in self._cache.pdbs_for(pod)[:1]:
                self._evictions.record_blocked((pod.namespace, pod.name, pod.uid), (pdb.namespace, pdb.name))
            self._publish_blocked(pod, eviction, "its PodDisruptionBudget does not allow it now")
            return False
        except InternalError as error:
            self._count_request(str(error.code))
            if _SEVERAL_PDBS not in error.message:
                raise
            self._publish_blocked(pod, eviction, "it has more than one PodDisruptionBudget")
            return False
        except ApiError as error:
            self._count_request(str(error.code))
            raise
        self._count_request("200")
        self._count_drained(pod)
        self._events.publish(pod, EVICTED, f"Evicted pod: {self._get_reason(pod) or FORCEFUL_TERMINATION}")
        return True

    def handle_pdb(self, change: ObjectChange) -> Iterable[PodKey]:
        """Retry as many blocked pods as a PDB allows now, without waiting for the backoff."""
        old, new = change.old, change.new
        if new is None:
            return self._evictions.get_blocked((old.namespace, old.name), _NO_LIMIT)
        if old is not None and new.disruptions_allowed > old.disruptions_allowed:
            return self._evictions.get_blocked((new.namespace, new.name), new.disruptions_allowed)
        return ()

    def _requeue(self, eviction: Eviction, pod: Pod, now: datetime) -> RequeueAfter:
        """Requeue with backoff, but not later than the pod must be deleted."""
        eviction.attempts += 1
        delay = BACKOFF.after(eviction.attempts)
        force_at = get_force_time(pod, eviction.deadline, now)
        return RequeueAfter(delay if force_at is None else min(delay, force_at - now))

    def _get_reason(self, pod: Pod) -> str:
        """Return why the pod's node is disrupted; empty if its NodeClaim is unknown."""
        node = self._cache.node(pod.node_name)
        claims = self._cache.claims_of(node.provider_id) if node is not None else ()
        if len(claims) != 1:
            return ""
        conditions = claims[0].conditions
        if is_true(conditions, DISRUPTION_REASON):
            return conditions[DISRUPTION_REASON].reason
        return FORCEFUL_TERMINATION

    def _publish_blocked(self, pod: Pod, eviction: Eviction, cause: str) -> None:
        node = self._cache.node(eviction.node)
        if node is not None:
            message = f"Pod {pod.key} cannot be evicted: {cause}"
            self._events.publish(node, FAILED_DRAINING, message, dedupe_key=(node.name,))

    def _count_request(self, code: str) -> None:
        self._metrics.inc(PODS_EVICTION_REQUESTS, CodeLabels(code=code))

    def _count_drained(self, pod: Pod) -> None:
        self._metrics.inc(PODS_DRAINED, ReasonLabels(reason=self._get_reason(pod)))


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    reconciler = EvictionQueue(context)
    return Controller(
        name=NAME,
        reconciler=reconciler,
        watches=((POD_DISRUPTION_BUDGETS, reconciler.handle_pdb),),
        sources=(context.evictions.subscribe,),
        backoff=BACKOFF,
    )
