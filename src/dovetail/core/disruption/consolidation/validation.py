"""Is a move still right? Asked again on a new picture, shortly before it is made."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from dovetail.core.disruption.command import Move
from dovetail.core.disruption.context import View
from dovetail.core.disruption.simulation import Outcome, WhatIf
from dovetail.model.plan import PlannedNode
from dovetail.model.settings import SchedulingSettings


class Objection(msgspec.Struct, frozen=True):
    """Why a move is dropped."""

    code: str
    """``churn``, ``budget`` or ``scheduling``."""
    because: str


class Recheck:
    """Looks at moves again, in their order; those that pass are the ground for the next."""

    def __init__(
        self,
        view: View,
        room: Mapping[str, int],
        scheduling: SchedulingSettings | None = None,
        *,
        moves: Iterable[Move] | None = None,
    ) -> None:
        """Look at a new picture; where it is known which ``moves`` will be asked about, quicker."""
        self._room = dict(room)
        only = None
        if moves is not None:
            there = {one.node.name for one in view.candidates}
            only = there & {one.node.name for move in moves for one in move.removed}
        self._whatif = WhatIf(view, scheduling, only=only)
        self._names = {one.node.name for one in view.candidates} & set(self._whatif.hosts)

    def objection(self, move: Move) -> Objection | None:
        """Return what is against a move now; None: it may be made."""
        for one in move.removed:
            if one.node.name not in self._names:
                return Objection("churn", f"Node {one.node.name} may not be disrupted any more")
        pools = [one.pool.name for one in move.removed]
        for pool in sorted(set(pools)):
            if pools.count(pool) > self._room.get(pool, 0):
                return Objection("budget", f"NodePool {pool!r} has no budget left for it")
        problem = self._problem(move)
        if problem:
            return Objection("scheduling", problem)
        self._names -= {one.node.name for one in move.removed}
        for pool in pools:
            self._room[pool] -= 1
        return None

    def _problem(self, move: Move) -> str:
        gone = [self._whatif.hosts[one.node.name] for one in move.removed]
        problem = ""
        # The move may have been found either way.
        for fewest in (True, False):
            problem = ""

            def agrees(outcome: Outcome) -> bool:
                nonlocal problem
                problem = _difference(move, outcome)
                return not problem

            self._whatif.ask(gone, fewest=fewest, keep_if=agrees)
            if not problem:
                break
        return problem


def _difference(move: Move, outcome: Outcome) -> str:
    """Say in what the answer is another now; empty: it is as good."""
    if outcome.blocked:
        return outcome.blocked
    if len(outcome.nodes) != len(move.replacements):
        return f"{len(outcome.nodes)} new nodes are needed now, not {len(move.replacements)}"
    if not _covers(outcome.nodes, move.replacements):
        return "other instance types are needed now"
    return ""


def _covers(fresh: Sequence[PlannedNode], planned: Sequence[PlannedNode]) -> bool:
    """Tell whether each planned node may still be launched as any of its types."""
    options = [
        (one.nodepool, {kind.name for kind in one.instance_types})
        for one in sorted(fresh, key=lambda one: one.price)
    ]
    for one in sorted(planned, key=lambda one: one.price):
        wanted = {kind.name for kind in one.instance_types}
        for at, (pool, names) in enumerate(options):
            if pool == one.nodepool and wanted <= names:
                del options[at]
                break
        else:
            return False
    return True
