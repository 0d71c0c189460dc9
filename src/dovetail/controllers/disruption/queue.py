"""Lets nodes go once what was bought for them is ready, or live on when nothing comes of it."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from dovetail.controllers.disruption.marks import DISRUPTION_REASON, Marks
from dovetail.controllers.nodeclaim_deletion import Parting, Why
from dovetail.controllers.runtime.manager import Registration, Requeue
from dovetail.core.disruption.budgets import Reason
from dovetail.core.disruption.replacement import (
    Judgement,
    Sight,
    Undertaking,
    Verdict,
    judge,
    read_undertaking,
)
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.event_loop import Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import NotFound
from dovetail.ports.telemetry import Events, Log, Metrics
from dovetail.state.cluster.cache import Change, Mirror
from dovetail.state.nodes.replacements import Undertakings
from dovetail.state.pods.assignments import Promises

NAME: Final = "disruption.queue"
_UNSYNCED: Final = Requeue(timedelta(seconds=1))


class Replacing:
    """One undertaking a key; woken by news of the claims that have a part in it."""

    def __init__(
        self,
        *,
        mirror: Mirror,
        promises: Promises,
        kube: Kube,
        loop: Loop,
        log: Log,
        events: Events,
        metrics: Metrics,
    ) -> None:
        self._mirror = mirror
        self._undertakings = Undertakings(mirror)
        self._kube = kube
        self._loop = loop
        self._log = log
        self._events = events
        self._metrics = metrics
        self._marks = Marks(mirror=mirror, promises=promises, kube=kube, clock=loop, log=log)
        self._parting = Parting(
            mirror=mirror, kube=kube, loop=loop, log=log, events=events, metrics=metrics
        )

    def registration(self) -> Registration:
        """Have it told of claims that come, and of claims and nodes that are to go."""
        return Registration(
            name=NAME,
            controller=self,
            watches=((NODE_CLAIMS, self._of_claim), (NODES, self._of_node)),
        )

    def _of_claim(self, change: Change) -> Iterable[str]:
        keys = {key for one in (change.old, change.new) if one for key in self._about(one)}
        return sorted(keys)

    def _of_node(self, change: Change) -> Iterable[str]:
        old, new = change.old, change.new
        if old is not None and new is not None and old.taints == new.taints:
            return ()
        claims = self._mirror.claims_of(change.either.provider_id)
        return [key for one in claims for key in self._about(one)]

    def _about(self, claim: NodeClaim) -> list[str]:
        return self._undertakings.concerning(claim)

    async def reconcile(self, key: str) -> Requeue | None:
        # Observe.
        if not self._mirror.synced():
            return _UNSYNCED
        begun = self._undertakings.get(key)
        if begun is None:
            return None
        now = self._loop.now()

        # Decide.
        verdict = judge(
            begun,
            Sight(
                now=now,
                claim=self._mirror.claim,
                marked=self._is_marked,
                nodes=self._undertakings.waiting(),
            ),
        )

        # Act, and tell.
        if verdict.verdict is Verdict.FINISH:
            await self._parting.delete(verdict.staying, _why(begun, verdict.staying))
            self._log.debug("command succeeded", replacements=key)
        elif verdict.verdict is Verdict.ROLL_BACK:
            await self._roll_back(begun, verdict)
        elif verdict.verdict is Verdict.WAIT:
            self._tell_of_waiting(verdict.unready)
        return Requeue(verdict.until - now) if verdict.until is not None else None

    def _is_marked(self, claim: NodeClaim) -> bool:
        # Without a node there is nothing that a pod could come to.
        return self._marks.tainted(claim) or not self._mirror.nodes_of(claim.provider_id)

    async def _roll_back(self, begun: Undertaking, verdict: Judgement) -> None:
        """Give up; first of all the claims that came say no more that they replace others.

        Killed after that, marks are left for which nothing comes, and those are
        always taken off.
        """
        why = _why(begun, verdict.staying)
        self._log.error(
            "disruption failed, its node(s) live on",
            nodeclaims=", ".join(one.name for one in verdict.staying),
            reason=why.reason.lower(),
            error=verdict.because,
        )
        lost = len(begun.replacements) - sum(
            1 for name in begun.replacements if self._is_ready(name)
        )
        self._metrics.count(
            "karpenter_voluntary_disruption_queue_failures_total", lost, **why.labels
        )
        for name in begun.replacements:
            claim = self._mirror.claim(name)
            if claim is not None and read_undertaking(claim) == begun:
                await self._forget(claim)
        for claim in verdict.staying:
            await self._marks.take(claim)

    def _is_ready(self, name: str) -> bool:
        claim = self._mirror.claim(name)
        return claim is not None and is_true(claim.conditions, "Initialized")

    async def _forget(self, claim: NodeClaim) -> None:
        gone = {label_keys.REPLACES: None, label_keys.REPLACEMENTS: None}
        try:
            await self._kube.patch(NODE_CLAIMS, claim.name, {"metadata": {"annotations": gone}})
        except NotFound:
            return  # It is gone altogether.

    def _tell_of_waiting(self, unready: Iterable[NodeClaim]) -> None:
        for claim in unready:
            if is_true(claim.conditions, "Launched"):
                reason, message = "DisruptionWaitingReadiness", "Waiting on readiness to continue"
            else:
                reason, message = "DisruptionLaunching", f"Launching NodeClaim: {claim.name}"
            self._events.publish(
                NODE_CLAIMS, claim.name, uid=claim.uid, reason=reason, message=message
            )


def _why(begun: Undertaking, staying: Sequence[NodeClaim]) -> Why:
    """Return on what grounds it was begun, as the claims that go say."""
    told = [
        one.conditions[DISRUPTION_REASON] for one in staying if DISRUPTION_REASON in one.conditions
    ]
    known = {reason.value: reason for reason in Reason}
    reason = known.get(told[0].reason, Reason.DRIFTED) if told else Reason.DRIFTED
    label = ""
    if reason is Reason.UNDERUTILIZED:
        label = "multi" if len(begun.leaving) > 1 else "single"
    return Why(reason, label, "replace")
