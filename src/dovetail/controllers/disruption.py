"""Takes away nodes that are not needed: one method after the other, within budgets.

Nobody looks round every few seconds: a pass is made when a machine becomes
empty or ripe, when budgets may have room again, and at the moment at which the
next machine will be ripe.
"""

from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.controllers.commands import Commands
from dovetail.controllers.idleness import Idleness
from dovetail.controllers.runtime import SINGLETON, Registration, Requeue
from dovetail.core.disruption.budgets import allowance, census, left
from dovetail.core.disruption.candidates import (
    Candidate,
    Machine,
    Spared,
    Surroundings,
    consider,
)
from dovetail.core.disruption.emptiness import EMPTINESS
from dovetail.core.disruption.methods import Method
from dovetail.core.podrules import remark_on
from dovetail.model.catalog import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.nodepool import NodePool
from dovetail.ports.cloud import Cloud
from dovetail.ports.kube import Kube
from dovetail.ports.loop import Loop
from dovetail.ports.resources import NODE_CLAIMS, NODE_POOLS, NODES, PODS
from dovetail.ports.telemetry import DEDUPE, Events, Log, Metrics
from dovetail.state.mirror import Mirror
from dovetail.state.nominations import Nominations

NAME: Final = "disruption"
METHODS: Final = (EMPTINESS,)
"""In this order; the first that does something ends a pass."""
LOOK_AGAIN: Final = timedelta(seconds=10)
"""Only while a machine that would go is held back by something that nobody tells of."""

_UNSYNCED: Final = Requeue(timedelta(seconds=1))
_AT_ONCE: Final = Requeue(timedelta())
_POOL_DEDUPE: Final = timedelta(minutes=1)
_SETTING_DEDUPE: Final = timedelta(minutes=15)


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """What one method finds when it looks round."""

    candidates: tuple[Candidate, ...] = ()
    held_back: bool = False
    ripe_at: datetime | None = None


class Disruption:
    """One pass at a time over the machines that a method wants."""

    def __init__(
        self,
        *,
        mirror: Mirror,
        nominations: Nominations,
        kube: Kube,
        cloud: Cloud,
        loop: Loop,
        log: Log,
        events: Events,
        metrics: Metrics,
    ) -> None:
        self._mirror = mirror
        self._nominations = nominations
        self._cloud = cloud
        self._loop = loop
        self._log = log
        self._events = events
        self._metrics = metrics
        self._commands = Commands(
            mirror=mirror, kube=kube, loop=loop, log=log, events=events, metrics=metrics
        )
        self._types: dict[str, tuple[tuple[InstanceType, ...], FrozenDict[str, InstanceType]]] = {}
        self.idleness = Idleness(mirror=mirror, clock=loop)

    def registration(self) -> Registration:
        """Have it told of all by which a node becomes, or stays, idle."""
        return Registration(
            name=NAME,
            controller=self,
            watches=(
                (NODE_CLAIMS, self.idleness.on_claim),
                (PODS, self.idleness.on_pod),
                (NODES, self.idleness.on_node),
                (NODE_POOLS, self.idleness.on_pool),
            ),
            at_start=(SINGLETON,),
            workers=1,
        )

    async def reconcile(self, _: str) -> Requeue | None:
        """Make a pass; tell when the next is due."""
        now = self._loop.now()
        if not self._mirror.synced():
            return _UNSYNCED
        await self._commands.take_back()
        self.idleness.short = frozenset()
        dues: list[datetime] = []
        for method in METHODS:
            found = self._look_round(method, now)
            if await self._act(method, found.candidates, now):
                return _AT_ONCE
            if found.held_back or found.candidates:
                dues.append(now + LOOK_AGAIN)
            if found.ripe_at is not None:
                dues.append(found.ripe_at)
        return Requeue(min(dues) - now) if dues else None

    def _look_round(self, method: Method, now: datetime) -> _Found:
        candidates: list[Candidate] = []
        held_back = False
        dues: list[datetime] = []
        around = self._around(now)
        for claim in self._mirror.claims():
            if claim.deleting or not claim.provider_id:
                continue
            machine = self.idleness.machine(claim)
            wish = method.wish(machine, self._mirror.pool(claim.pool), now)
            if wish.at is not None:
                dues.append(wish.at)
            if wish.never:
                self._tell(machine, "Unconsolidatable", wish.never, _SETTING_DEDUPE)
            if not wish.now:
                continue
            self._tell_of_pods(machine, now)
            verdict = consider(machine, around, method.manner)
            if isinstance(verdict, Spared):
                held_back = True
                self._tell(machine, "DisruptionBlocked", verdict.because, DEDUPE)
            else:
                candidates.append(verdict)
        self._metrics.gauge(
            "karpenter_voluntary_disruption_eligible_nodes",
            len(candidates),
            reason=method.reason.lower(),
        )
        return _Found(
            candidates=tuple(candidates), held_back=held_back, ripe_at=min(dues, default=None)
        )

    async def _act(self, method: Method, candidates: tuple[Candidate, ...], now: datetime) -> bool:
        """Take away what budgets allow; tell whether that came to anything."""
        if not candidates:
            return False
        pools = {one.pool.name: one.pool for one in candidates}
        room = {name: self._room(pool, method, now) for name, pool in sorted(pools.items())}
        choice = method.choose(candidates, room)
        self.idleness.short = frozenset(one.pool.name for one in choice.over_budget)
        if not choice.chosen:
            return False

        def still_wanted(one: Candidate) -> bool:
            latest = self._mirror.claim(one.claim.name)
            if latest is None or latest.deleting:
                return False
            machine = self.idleness.machine(latest)
            if not method.wish(machine, self._mirror.pool(latest.pool), now).now:
                return False
            around = self._around(now, in_hand=frozenset({one.identity}))
            return isinstance(consider(machine, around, method.manner), Candidate)

        deleted = await self._commands.delete(
            choice.chosen, method.reason, label=method.label, still_wanted=still_wanted
        )
        if not deleted:
            await self._commands.take_back()
        return deleted > 0

    def _room(self, pool: NodePool, method: Method, now: datetime) -> int:
        """Return how many more nodes of a pool may be disrupted."""
        counted = census(
            (one, self.idleness.node(one)) for one in self._mirror.claims_in(pool.name)
        )
        allowed = allowance(pool.disruption.budgets, method.reason, total=counted.total, now=now)
        for mistake in allowed.mistakes:
            self._log.error("invalid disruption budget", nodepool=pool.name, error=mistake)
        room = left(allowed.allowed, counted)
        for name, value in (
            ("karpenter_nodepools_allowed_disruptions", room),
            ("karpenter_nodepools_nodes_consuming_budgets", counted.disrupting),
        ):
            self._metrics.gauge(name, value, nodepool=pool.name, reason=method.reason.value)
        if room == 0 and counted.total > 0:
            self._events.publish(
                NODE_POOLS,
                pool.name,
                uid=pool.uid,
                reason="DisruptionBlocked",
                message=f"No allowed disruptions for disruption reason {method.reason} "
                "due to blocking budget",
                dedupe=_POOL_DEDUPE,
            )
        return room

    def _around(self, now: datetime, in_hand: frozenset[str] = frozenset()) -> Surroundings:
        return Surroundings(
            now=now,
            pool=self._mirror.pool,
            types=self._types_of,
            budgets=self._mirror.budgets_for,
            nominated=self._nominations.nominated,
            in_hand=in_hand,
        )

    def _types_of(self, pool: NodePool) -> FrozenDict[str, InstanceType]:
        types = self._cloud.instance_types(pool)
        known = self._types.get(pool.name)
        if known is None or known[0] is not types:
            known = types, FrozenDict({one.name: one for one in types})
            self._types[pool.name] = known
        return known[1]

    def _tell(self, machine: Machine, reason: str, message: str, dedupe: timedelta) -> None:
        for resource, one in ((NODES, machine.node), (NODE_CLAIMS, machine.claim)):
            if one is not None and message:
                self._events.publish(
                    resource, one.name, uid=one.uid, reason=reason, message=message, dedupe=dedupe
                )

    def _tell_of_pods(self, machine: Machine, now: datetime) -> None:
        for pod in machine.pods:
            remark = remark_on(pod, now)
            if remark is not None:
                self._events.publish(
                    PODS,
                    pod.name,
                    namespace=pod.namespace,
                    uid=pod.uid,
                    reason=remark.reason,
                    message=remark.message,
                    warning=remark.warning,
                )
