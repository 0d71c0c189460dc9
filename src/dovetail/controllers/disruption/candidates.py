"""Sees the cluster as those do who want to take nodes away: candidates, budgets, the whole."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.controllers.disruption.events import Announcements
from dovetail.controllers.disruption.triggers import Idleness
from dovetail.controllers.scheduling_snapshot import Scene
from dovetail.core.disruption.budgets import UNLIMITED, allowance, census, left
from dovetail.core.disruption.candidates import (
    Candidate,
    Spared,
    Surroundings,
    consider,
    price_of,
)
from dovetail.core.disruption.command import Stay
from dovetail.core.disruption.context import View, window_end
from dovetail.core.disruption.method import Method
from dovetail.core.nodeclaim.drift import DRIFTED
from dovetail.core.nodepool.static import granted, standing
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.workloads import DisruptionBudget
from dovetail.model.node import NodeObject
from dovetail.ports.api_resources import POD_DISRUPTION_BUDGETS
from dovetail.ports.cloudprovider import Cloud
from dovetail.ports.event_loop import Loop
from dovetail.ports.telemetry import Log, Metrics
from dovetail.state.capacitybuffers import Buffers
from dovetail.state.cluster.cache import Mirror
from dovetail.state.nodes.keep_reasons import Stays
from dovetail.state.nodes.nominations import Nominations
from dovetail.state.nodes.replacements import Undertakings
from dovetail.state.pods.assignments import Promises

LOOK_AGAIN: Final = timedelta(seconds=10)
"""Only while a machine that would go is held back by something that nobody tells of."""


AT_A_STRETCH: Final = 100
"""So many machines, with all of their pods, are looked at in some ten milliseconds."""


_SOON: Final = timedelta(minutes=5)
"""So long it may be waited for nodes to take pods before others are bought."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What one method finds when it looks round."""

    candidates: tuple[Candidate, ...] = ()
    ripe: datetime | None = None
    """When the next machine will be wanted, if nothing happens until then."""
    again: datetime | None = None
    """When to look again at those that are held back by what nobody tells of."""

    @property
    def due(self) -> datetime | None:
        """When it may find something else, as far as that is a matter of time."""
        return min((one for one in (self.ripe, self.again) if one is not None), default=None)


class Survey:
    """Reads the mirror for methods, and tells what keeps nodes from going."""

    def __init__(
        self,
        *,
        mirror: Mirror,
        promises: Promises,
        nominations: Nominations,
        cloud: Cloud,
        loop: Loop,
        buffers: Buffers,
        idleness: Idleness,
        stays: Stays,
        announcements: Announcements,
        log: Log,
        metrics: Metrics,
    ) -> None:
        self._mirror = mirror
        self._promises = promises
        self._nominations = nominations
        self._cloud = cloud
        self._loop = loop
        self._idleness = idleness
        self._stays = stays
        self._tell = announcements
        self._log = log
        self._metrics = metrics
        self._scene = Scene(mirror=mirror, promises=promises, cloud=cloud, buffers=buffers)
        self._undertakings = Undertakings(mirror)
        self._eligible: dict[Method, int] = {}
        self._types: dict[str, tuple[tuple[InstanceType, ...], FrozenDict[str, InstanceType]]] = {}

    async def look_round(self, method: Method, now: datetime) -> Found:
        """Return whom a method wants and may have; tell the others why not.

        Others come to their turn in between, so not all are seen at one instant:
        whoever acts on it looks at the machine once more.
        """
        candidates: list[Candidate] = []
        ripe: list[datetime] = []
        held_back = False
        around = self._around(now)
        for number, name in enumerate([claim.name for claim in self._mirror.claims()], 1):
            if number % AT_A_STRETCH == 0:
                await self._loop.sleep(timedelta())
            claim = self._mirror.claim(name)
            if claim is None or claim.deleting or not claim.provider_id:
                continue
            verdict = self._judge(claim, method, around)
            if isinstance(verdict, Candidate):
                candidates.append(verdict)
            elif isinstance(verdict, datetime):
                ripe.append(verdict)
            else:
                held_back = held_back or verdict
        self._eligible[method] = len(candidates)
        self._metrics.gauge(
            "karpenter_voluntary_disruption_eligible_nodes",
            sum(many for one, many in self._eligible.items() if one.reason is method.reason),
            reason=method.reason.lower(),
        )
        return Found(
            candidates=tuple(candidates),
            ripe=min(ripe, default=None),
            again=now + LOOK_AGAIN if held_back else None,
        )

    def _judge(
        self, claim: NodeClaim, method: Method, around: Surroundings
    ) -> Candidate | datetime | bool:
        """Return a candidate, or when a machine will be wanted, or whether it is held back."""
        machine = self._idleness.machine(claim)
        wish = method.wish(machine, self._mirror.pool(claim.pool), around.now)
        if wish.never and machine.node is not None:
            self._tell.unconsolidatable(machine, wish.never)
            if not is_true(claim.conditions, DRIFTED):
                self._keep(machine.node, claim.pool, "setting", wish.never)
        if not wish.now or self._undertakings.takes(claim):
            return wish.at or False
        setback = self._idleness.setback(claim, method.reason)
        if setback is not None:
            return setback
        if machine.guarded:
            self._tell.of_pods(machine.pods, around.now)
        verdict = consider(machine, around, method.manner)
        if isinstance(verdict, Candidate):
            problem = method.unfit(verdict)
            if problem is None:
                return verdict
            self._tell.unconsolidatable(machine, problem)
            self._keep(verdict.node, claim.pool, "unfit", problem)
            return False
        self._tell.blocked(machine, verdict.because)
        if machine.node is not None and verdict.because:
            self._keep(machine.node, claim.pool, "spared", verdict.because)
        return True

    def _keep(self, node: NodeObject, pool_name: str, code: str, because: str) -> None:
        pool = self._mirror.pool(pool_name)
        price = price_of(node, self._types_of(pool)) if pool is not None else 0.0
        self._stays.note([Stay(node=node.name, price=price, code=code, because=because)])

    def is_still_wanted(self, one: Candidate, method: Method, now: datetime) -> bool:
        """Look once more at a machine that was marked; it must be as it was when chosen.

        Pods that came in between have no place to go to; those that went need none.
        """
        claim = self._mirror.claim(one.claim.name)
        if claim is None or claim.deleting:
            return False
        machine = self._idleness.machine(claim)
        if not method.wish(machine, self._mirror.pool(claim.pool), now).now:
            return False
        verdict = consider(machine, self._around(now, frozenset({one.identity})), method.manner)
        if isinstance(verdict, Spared):
            return False
        known = {pod.uid for pod in one.reschedulable}
        return all(pod.uid in known for pod in verdict.reschedulable)

    def rooms(
        self, candidates: Iterable[Candidate], method: Method, now: datetime
    ) -> dict[str, int]:
        """Return how many more nodes of each candidate's pool may be disrupted."""
        pools = {one.pool.name: one.pool for one in candidates}
        return {name: self._room(pool, method, now) for name, pool in sorted(pools.items())}

    def _room(self, pool: NodePool, method: Method, now: datetime) -> int:
        counted = census(
            (one, self._idleness.node(one)) for one in self._mirror.claims_in(pool.name)
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
            self._tell.no_budget(pool, method.reason, allowed.mistakes)
        return room

    def spare(self, candidates: Iterable[Candidate]) -> dict[str, int]:
        """Return how many nodes of each static pool may have a double for a while.

        None of a pool that has more than it wants: those go first.
        """
        found = {}
        pools = {one.pool.name: one.pool for one in candidates if one.pool.replicas is not None}
        for name, pool in sorted(pools.items()):
            there = standing(self._mirror.claims_in(name))
            many = len(there.active) > (pool.replicas or 0)
            found[name] = 0 if many else granted(pool, there, UNLIMITED)
        return found

    def view(self, candidates: tuple[Candidate, ...], now: datetime) -> View:
        """Return the whole cluster at this instant."""
        ends = dict(self._windows(now))
        return View(
            snapshot=self._scene.snapshot(now),
            candidates=candidates,
            closed=frozenset(ends),
            closed_for_long=frozenset(name for name, end in ends.items() if end > now + _SOON),
        )

    def _windows(self, now: datetime) -> Iterable[tuple[str, datetime]]:
        """Yield the nodes that take no pods from others, and until when."""
        for pool in self._mirror.pools():
            if pool.disruption.consolidate_after:
                for claim in self._mirror.claims_in(pool.name):
                    end = window_end(claim, pool)
                    if claim.node_name and end is not None and now < end:
                        yield claim.node_name, end

    def _around(self, now: datetime, in_hand: frozenset[str] = frozenset()) -> Surroundings:
        return Surroundings(
            now=now,
            pool=self._mirror.pool,
            types=self._types_of,
            budgets=self._budgets(),
            nominated=self._is_spoken_for,
            in_hand=in_hand,
        )

    def _budgets(self) -> Callable[[Pod], tuple[DisruptionBudget, ...]]:
        """Return who speaks for a pod, as of now: found once for all replicas of a kind."""
        there = {one.namespace for one in self._mirror.tables[POD_DISRUPTION_BUDGETS].all()}
        known: dict[tuple[str, FrozenDict[str, str]], tuple[DisruptionBudget, ...]] = {}

        def of(pod: Pod) -> tuple[DisruptionBudget, ...]:
            if pod.namespace not in there:
                return ()
            key = (pod.namespace, pod.labels)
            if key not in known:
                known[key] = self._mirror.budgets_for(pod)
            return known[key]

        return of

    def _is_spoken_for(self, identity: str, now: datetime) -> bool:
        """Tell whether pods are about to come to a machine."""
        if self._nominations.nominated(identity, now):
            return True
        return any(self._promises.kept_by(one.name) for one in self._mirror.claims_of(identity))

    def _types_of(self, pool: NodePool) -> FrozenDict[str, InstanceType]:
        types = self._cloud.instance_types(pool)
        known = self._types.get(pool.name)
        if known is None or known[0] is not types:
            known = types, FrozenDict({one.name: one for one in types})
            self._types[pool.name] = known
        return known[1]
