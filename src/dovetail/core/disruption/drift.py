"""Replacing nodes that are not what their pool would buy any more."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from dovetail.core.disruption.budgets import Reason
from dovetail.core.disruption.candidates import Candidate, Machine, Manner
from dovetail.core.disruption.command import Move, Stay
from dovetail.core.disruption.method import NO_WISH, Decision, Method, Question, Wish
from dovetail.core.disruption.simulation import WhatIf
from dovetail.core.nodeclaim.drift import DRIFTED
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import is_true

MOST_AT_ONCE: Final = 20
"""Nodes that one pass begins to replace; the next pass follows at once, with a new picture."""
_WISHED: Final = Wish(now=True)
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


def wish(machine: Machine, pool: NodePool | None, _: datetime) -> Wish:
    """Say whether a machine is to be replaced for having drifted."""
    claim = machine.claim
    if claim is None or pool is None or pool.replicas is not None:
        return NO_WISH
    return _WISHED if is_true(claim.conditions, DRIFTED) else NO_WISH


def decide(question: Question) -> Decision:
    """Replace those without pods first, then those that drifted earliest.

    Each node is a move of its own, so that one that cannot be replaced does not
    hold up another. Within one decision no two moves count on room on the same
    node: each was reckoned without the other. No pod is sent to a node that has
    drifted as well, from where it would soon have to go again.
    """
    remaining = dict(question.room)
    whatif: WhatIf | None = None
    moves: list[Move] = []
    over: list[Candidate] = []
    stays: list[Stay] = []
    taken: set[str] = set()
    for one in in_order(question.candidates):
        if remaining.get(one.pool.name, 0) <= 0:
            over.append(one)
            continue
        if len(moves) >= MOST_AT_ONCE:
            break
        if not one.reschedulable:
            found: Move | Stay = Move(removed=(one,), saving=one.price)
        else:
            whatif = whatif or _whatif(question)
            found = _replaced(one, whatif)
        if isinstance(found, Stay):
            stays.append(found)
            continue
        targets = {placement.node for placement in found.placements}
        if targets & taken:
            continue
        taken |= targets
        remaining[one.pool.name] -= 1
        moves.append(found)
    return Decision(tuple(moves), tuple(over), tuple(stays))


def _whatif(question: Question) -> WhatIf:
    drifted = frozenset(one.node.name for one in question.candidates)
    return WhatIf(replace(question.whole, closed=drifted), question.scheduling)


def in_order(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Sort: those without pods first, then those that drifted earliest."""

    def rank(one: Candidate) -> tuple[bool, datetime, str]:
        since = one.claim.conditions[DRIFTED].since
        return (bool(one.reschedulable), since or _LONG_AGO, one.node.name)

    return sorted(candidates, key=rank)


def _replaced(one: Candidate, whatif: WhatIf) -> Move | Stay:
    outcome = whatif.without([one.node.name])
    if outcome.blocked:
        return Stay(node=one.node.name, price=one.price, code="no-place", because=outcome.blocked)
    return Move(
        removed=(one,),
        replacements=outcome.nodes,
        placements=outcome.placements,
        saving=one.price - outcome.price,
    )


DRIFT: Final = Method(
    reason=Reason.DRIFTED,
    label=lambda _: "",
    manner=Manner.EVENTUAL,
    wish=wish,
    decide=decide,
    looks_at_all=True,
)
