"""Which nodes to give back or replace, looking at every one of them.

Moves are taken by what they save per unit of disruption, each reckoned on top
of those before it, until what is left is below the threshold or over budget.
"""

import heapq
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from dovetail.core.disruption.candidates import Blocker, Candidate
from dovetail.core.disruption.command import Move, Stay
from dovetail.core.disruption.consolidation.balanced import PoolTotals, pool_totals
from dovetail.core.disruption.consolidation.deferral import SOON, Patience
from dovetail.core.disruption.consolidation.evaluator import Ground, Verdict
from dovetail.core.disruption.consolidation.multi_node import SetSearch
from dovetail.core.disruption.context import View
from dovetail.core.disruption.simulation import WhatIf
from dovetail.model.karpenter.nodepool import ConsolidationPolicy
from dovetail.model.settings import ConsolidationSettings, SchedulingSettings


class Consolidation(msgspec.Struct, frozen=True):
    """What to do now, and why every other candidate stays."""

    moves: tuple[Move, ...] = ()
    """Each is reckoned on top of those before it: any first few of them go together."""
    stays: tuple[Stay, ...] = ()


def consolidate(
    view: View,
    room: Mapping[str, int],
    *,
    settings: ConsolidationSettings | None = None,
    scheduling: SchedulingSettings | None = None,
) -> Consolidation:
    """Choose nodes to give back or replace, as many as budgets have ``room`` for, by pool."""
    settings = settings or ConsolidationSettings()
    if not view.candidates:
        return Consolidation()
    whatif = WhatIf(view, scheduling)
    ground = Ground(whatif, settings, _totals(view))
    there = [one for one in view.candidates if one.node.name in whatif.hosts]
    one_pass = _Pass(ground, there, whatif.costs, room, Patience(view, scheduling))
    one_pass.choose_single()
    one_pass.choose_sets(SetSearch(ground, whatif))
    leaving = [_leaving(one) for one in view.candidates if one.node.name not in whatif.hosts]
    stays = sorted([*one_pass.stays(), *leaving], key=lambda one: one.node)
    return Consolidation(tuple(one_pass.moves), tuple(stays))


def _totals(view: View) -> dict[str, PoolTotals]:
    """Return the totals of Balanced pools; others need none."""
    balanced = [
        one for one in view.candidates if one.pool.disruption.policy is ConsolidationPolicy.BALANCED
    ]
    return pool_totals(balanced, view.snapshot)


def _leaving(one: Candidate) -> Stay:
    why = "it is on its way out already"
    return Stay(node=one.node.name, price=one.price, code="spared", because=why)


class _Entry(NamedTuple):
    """A candidate in the order of choosing; the best comes first."""

    rank: float
    name: str
    version: int
    verdict: Verdict


class _Pass:
    """One pass over all candidates."""

    def __init__(
        self,
        ground: Ground,
        candidates: Sequence[Candidate],
        costs: Mapping[str, float],
        room: Mapping[str, int],
        patience: Patience,
    ) -> None:
        self._ground = ground
        self._patience = patience
        self._candidates = {one.node.name: one for one in candidates}
        self._costs = costs
        self._room = dict(room)
        self._verdicts: dict[str, Verdict] = {}
        self._over_budget: set[str] = set()
        self.moves: list[Move] = []

    def choose_single(self) -> None:
        """Take nodes one by one, what saves most for its disruption first."""
        verdicts = self._ground.weigh_all(self._candidates.values())
        heap = [
            entry
            for name in sorted(self._candidates)
            if (entry := self._entry(name, verdicts[name])) is not None
        ]
        heapq.heapify(heap)
        while heap:
            entry = heapq.heappop(heap)
            name = entry.name
            one = self._candidates[name]
            if name in self._ground.receives:
                continue
            if self._room.get(one.pool.name, 0) <= 0:
                self._over_budget.add(name)
                continue
            best = self._looked_at_again(entry, heap)
            if best is not None:
                self._take(one, best.verdict)

    def _looked_at_again(self, entry: _Entry, others: list[_Entry]) -> _Entry | None:
        """Return an entry if it still is the best; put it back, if it is any good."""
        if entry.version != self._ground.version:
            # Others have moved since: what was true then may not be now.
            again = self._weigh(entry.name)
            if again is None or _put_back(again, others):
                return None
            entry = again
        if entry.verdict.hoped:
            exact = self._weigh(entry.name, exactly=True)
            if exact is None or _put_back(exact, others):
                return None
            entry = exact
        return entry

    def choose_sets(self, search: SetSearch) -> None:
        """Take sets of nodes that are worth replacing together."""
        while True:
            gone = {one.node.name for move in self.moves for one in move.removed}
            left = [
                one
                for name, one in sorted(self._candidates.items())
                if name not in gone and name not in self._ground.receives
            ]
            move = search.best(left, self._room)
            if move is None or self._patience.waits_for(move.removed, move.bought):
                break
            self._chosen(move)
            if search.tired:
                break

    def _weigh(self, name: str, *, exactly: bool = False) -> _Entry | None:
        one = self._candidates[name]
        verdict = self._ground.weigh_exactly(one) if exactly else self._ground.weigh(one)
        return self._entry(name, verdict)

    def _entry(self, name: str, verdict: Verdict) -> _Entry | None:
        self._verdicts[name] = verdict
        if verdict.code:
            return None
        rank = -verdict.saving / self._costs[name]
        return _Entry(rank, name, self._ground.version, verdict)

    def _take(self, one: Candidate, verdict: Verdict) -> None:
        if self._patience.waits_for([one], one.price - verdict.saving):
            self._verdicts[one.node.name] = Verdict(code="young", because=SOON)
            return
        found = self._ground.take([one], verdict)
        if isinstance(found, Verdict):
            self._verdicts[one.node.name] = found
            return
        self._chosen(found)

    def _chosen(self, move: Move) -> None:
        self.moves.append(move)
        for one in move.removed:
            self._room[one.pool.name] -= 1

    def stays(self) -> tuple[Stay, ...]:
        """Return why each of the others stays."""
        gone = {one.node.name for move in self.moves for one in move.removed}
        return tuple(
            self._stay(one) for name, one in sorted(self._candidates.items()) if name not in gone
        )

    def _stay(self, one: Candidate) -> Stay:
        name = one.node.name
        verdict = self._verdicts[name]
        code, because = verdict.code, verdict.because
        if name in self._ground.receives:
            code, because = "receives", f"it takes pods of {self._ground.receives[name]}"
        elif name in self._over_budget:
            code = "budget"
            because = (
                f"it would save {verdict.saving:.4f} USD per hour, "
                f"but NodePool {one.pool.name!r} has no budget left"
            )
        whose = Blocker("NodePool", one.pool.name) if code == "budget" else None
        return Stay(node=name, price=one.price, code=code, because=because, blocker=whose)


def _put_back(entry: _Entry, others: list[_Entry]) -> bool:
    """Let an entry wait behind those that are better now; tell whether it has to."""
    waits = bool(others) and entry.rank > others[0].rank
    if waits:
        heapq.heappush(others, entry)
    return waits
