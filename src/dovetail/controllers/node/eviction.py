"""Asks pods to leave, one by one; those whose time is up are made to."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from dovetail.controllers.pod.disruption_events import tell_remark
from dovetail.controllers.runtime.manager import Registration, Requeue
from dovetail.controllers.runtime.workqueue import Backoff
from dovetail.core.node.drain import Way, force_at, force_grace, way
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import Pod
from dovetail.ports.api_resources import NODES, POD_DISRUPTION_BUDGETS, PODS
from dovetail.ports.event_loop import Clock
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import ApiError, Conflict, InternalError, NotFound, TooManyRequests
from dovetail.ports.telemetry import Events, Log, Metrics
from dovetail.state.cluster.cache import Change, Mirror
from dovetail.state.pods.evictions import Eviction, Evictions, PodKey

NAME: Final = "eviction-queue"
BACKOFF: Final = Backoff(timedelta(milliseconds=100), timedelta(seconds=10))
UNASKED: Final = "Forceful Termination"
"""Why pods were drained from a node that no disruption chose."""
_ALL: Final = 2**31
_SEVERAL_BUDGETS: Final = "more than one PodDisruptionBudget"


class EvictionQueue:
    """One pod at a time. A pod's key has its uid: whoever has its name later is left alone."""

    def __init__(
        self,
        *,
        mirror: Mirror,
        kube: Kube,
        loop: Clock,
        evictions: Evictions,
        log: Log,
        events: Events,
        metrics: Metrics,
    ) -> None:
        self._mirror = mirror
        self._kube = kube
        self._clock = loop
        self._evictions = evictions
        self._log = log
        self._events = events
        self._metrics = metrics

    def registration(self) -> Registration:
        """Have it told of pods that are to go, and of budgets that give."""
        return Registration(
            name=NAME,
            controller=self,
            watches=((POD_DISRUPTION_BUDGETS, self.on_budget),),
            sources=(self._evictions.subscribe,),
            backoff=BACKOFF,
        )

    async def reconcile(self, key: PodKey) -> Requeue | None:
        """Do about a pod what there is to do now."""
        # Observe.
        now = self._clock.now()
        wanted = self._evictions.get(key)
        namespace, name, uid = key
        pod = self._mirror.pod(namespace, name)
        if wanted is None or pod is None or pod.uid != uid:
            self._evictions.drop(key)
            return None

        # Decide.
        step = way(pod, wanted.deadline, now)

        # Act and tell.
        tell_remark(self._events, pod, now)
        if step is Way.WAIT:
            return self._later(wanted, pod, now)
        if step is Way.FORCE and wanted.deadline is not None:
            await self._force(pod, force_grace(wanted.deadline, now))
        elif step is Way.EVICT and not await self._evict(pod, wanted):
            return self._later(wanted, pod, now)
        self._evictions.drop(key)
        return None

    async def _force(self, pod: Pod, grace: int) -> None:
        try:
            await self._kube.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_seconds=grace)
        except (NotFound, Conflict):
            return  # Gone; under its name there may be somebody else.
        self._log.debug("deleting pod", pod=pod.key, node=pod.node_name, grace_seconds=grace)
        self._events.publish(
            PODS,
            pod.name,
            namespace=pod.namespace,
            uid=pod.uid,
            reason="Disrupted",
            message=f"Deleting the pod so that it ends before its node must: {pod.node_name}",
        )
        self._count_drained(pod)

    async def _evict(self, pod: Pod, wanted: Eviction) -> bool:
        """Ask for an eviction; False when it has to be asked for again later."""
        try:
            await self._kube.evict(pod.name, pod.namespace, uid=pod.uid)
        except (NotFound, Conflict) as error:
            self._count_request(str(error.code))
            return True
        except TooManyRequests as error:
            self._count_request(str(error.code))
            for budget in self._mirror.budgets_for(pod)[:1]:
                self._evictions.keep(
                    (pod.namespace, pod.name, pod.uid), (budget.namespace, budget.name)
                )
            self._tell_refused(pod, wanted, "its PodDisruptionBudget does not allow it now")
            return False
        except InternalError as error:
            self._count_request(str(error.code))
            if _SEVERAL_BUDGETS not in error.message:
                raise
            self._tell_refused(pod, wanted, "it has more than one PodDisruptionBudget")
            return False
        except ApiError as error:
            self._count_request(str(error.code))
            raise
        self._count_request("200")
        self._count_drained(pod)
        self._events.publish(
            PODS,
            pod.name,
            namespace=pod.namespace,
            uid=pod.uid,
            reason="Evicted",
            message=f"Evicted pod: {self._reason(pod) or UNASKED}",
        )
        return True

    def on_budget(self, change: Change) -> Iterable[PodKey]:
        """Ask again for as many pods as a budget has come to allow, without waiting longer."""
        old, new = change.old, change.new
        if new is None:
            return self._evictions.kept_by((old.namespace, old.name), _ALL)
        if old is not None and new.allowed > old.allowed:
            return self._evictions.kept_by((new.namespace, new.name), new.allowed)
        return ()

    def _later(self, wanted: Eviction, pod: Pod, now: datetime) -> Requeue:
        """Ask again after a growing while, but not later than the pod must be made to go."""
        wanted.attempts += 1
        wait = BACKOFF.after(wanted.attempts)
        starts = force_at(pod, wanted.deadline, now)
        return Requeue(wait if starts is None else min(wait, starts - now))

    def _reason(self, pod: Pod) -> str:
        """Say why the pod's node goes, as its claim has it; empty where nobody knows."""
        node = self._mirror.node(pod.node_name)
        claims = self._mirror.claims_of(node.provider_id) if node is not None else ()
        if len(claims) != 1:
            return ""
        known = claims[0].conditions
        return known["DisruptionReason"].reason if is_true(known, "DisruptionReason") else UNASKED

    def _tell_refused(self, pod: Pod, wanted: Eviction, why: str) -> None:
        self._events.publish(
            NODES,
            wanted.node,
            reason="FailedDraining",
            message=f"Pod {pod.key} cannot be evicted: {why}",
            warning=True,
            same=(wanted.node,),
        )

    def _count_request(self, code: str) -> None:
        self._metrics.count("karpenter_pods_eviction_requests_total", code=code)

    def _count_drained(self, pod: Pod) -> None:
        self._metrics.count("karpenter_pods_drained_total", reason=self._reason(pod))
