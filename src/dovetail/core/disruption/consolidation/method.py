"""Consolidation as one of the methods: whom it wants, and what it does with all of them."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from dovetail.core.disruption.budgets import Reason
from dovetail.core.disruption.candidates import Machine, Manner, is_empty
from dovetail.core.disruption.command import Move
from dovetail.core.disruption.consolidation.consolidate import consolidate
from dovetail.core.disruption.consolidation.validation import Objection, Recheck
from dovetail.core.disruption.context import View, unfit
from dovetail.core.disruption.method import NO_WISH, Decision, Method, Question, Wish
from dovetail.model.karpenter.nodepool import ConsolidationPolicy, NodePool
from dovetail.model.kube.conditions import is_true
from dovetail.model.settings import SchedulingSettings

SETTLE: Final = timedelta(seconds=15)
"""What was found must still hold after so long."""
_WISHED: Final = Wish(now=True)
_WHEN_EMPTY: Final = Wish(never="its NodePool gives back nodes only when they are empty")
_NEVER: Final = Wish(never="its NodePool has consolidateAfter: Never")


def wish(machine: Machine, pool: NodePool | None, _: datetime) -> Wish:
    """Say whether a machine's pods may be moved for the sake of money."""
    claim = machine.claim
    if claim is None or pool is None or pool.replicas is not None or is_empty(machine.pods):
        return NO_WISH
    if pool.disruption.consolidate_after is None:
        return _NEVER
    if pool.disruption.policy is ConsolidationPolicy.WHEN_EMPTY:
        return _WHEN_EMPTY
    return _WISHED if is_true(claim.conditions, "Consolidatable") else NO_WISH


def decide(question: Question) -> Decision:
    """Look at every candidate at once; moves of one decision go together."""
    found = consolidate(
        question.whole,
        question.room,
        settings=question.settings,
        scheduling=question.scheduling,
    )
    held = {stay.node for stay in found.stays if stay.code == "budget"}
    over = tuple(one for one in question.candidates if one.node.name in held)
    return Decision(found.moves, over, found.stays)


def confirm(
    moves: Sequence[Move], view: View, room: Mapping[str, int], scheduling: SchedulingSettings
) -> tuple[tuple[Move, ...], tuple[tuple[Move, Objection], ...]]:
    """Return which moves still hold on a new picture, and what is against the others."""
    look = Recheck(view, room, scheduling, moves=moves)
    holding: list[Move] = []
    objections: list[tuple[Move, Objection]] = []
    for move in moves:
        objection = look.objection(move)
        if objection is None:
            holding.append(move)
        else:
            objections.append((move, objection))
    return tuple(holding), tuple(objections)


CONSOLIDATION: Final = Method(
    reason=Reason.UNDERUTILIZED,
    label=lambda move: "multi" if len(move.removed) > 1 else "single",
    manner=Manner.GRACEFUL,
    wish=wish,
    unfit=unfit,
    decide=decide,
    looks_at_all=True,
    settle=SETTLE,
)
