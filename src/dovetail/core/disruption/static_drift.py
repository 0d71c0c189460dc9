"""Replacing drifted nodes of pools that keep a fixed number of nodes: one for one."""

from datetime import datetime
from typing import Final

from dovetail.core.disruption.budgets import Reason
from dovetail.core.disruption.candidates import Candidate, Machine, Manner
from dovetail.core.disruption.command import Move
from dovetail.core.disruption.drift import in_order
from dovetail.core.disruption.method import NO_WISH, Decision, Method, Question, Wish
from dovetail.core.nodeclaim.drift import DRIFTED
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import is_true


def wish(machine: Machine, pool: NodePool | None, _: datetime) -> Wish:
    """Say whether a machine of a static pool is to be replaced for having drifted."""
    claim = machine.claim
    if claim is None or pool is None or pool.replicas is None:
        return NO_WISH
    return Wish(now=True) if is_true(claim.conditions, DRIFTED) else NO_WISH


def decide(question: Question) -> Decision:
    """Replace as many as budget and limit allow, each by what the template says now.

    Nothing is reckoned about pods: as many nodes as before will be there.
    """
    by_pool: dict[str, list[Candidate]] = {}
    for one in in_order(question.candidates):
        by_pool.setdefault(one.pool.name, []).append(one)
    moves: list[Move] = []
    over: list[Candidate] = []
    for name, candidates in sorted(by_pool.items()):
        allowed = min(question.room.get(name, 0), question.spare.get(name, 0))
        over += candidates[allowed:]
        moves += [Move(removed=(one,), from_template=(name,)) for one in candidates[:allowed]]
    return Decision(tuple(moves), tuple(over))


STATIC_DRIFT: Final = Method(
    reason=Reason.DRIFTED,
    label=lambda _: "",
    manner=Manner.EVENTUAL,
    wish=wish,
    decide=decide,
)
