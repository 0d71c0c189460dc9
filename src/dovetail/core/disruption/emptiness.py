"""Giving back nodes that nobody needs."""

from datetime import datetime, timedelta
from typing import Final

from dovetail.core.disruption.budgets import Reason
from dovetail.core.disruption.candidates import Candidate, Machine, Manner, is_empty
from dovetail.core.disruption.command import Move
from dovetail.core.disruption.method import NO_WISH, Decision, Method, Question, Wish
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import is_true

SETTLE: Final = timedelta(seconds=15)
"""A node must have been seen empty so long, however short ``consolidateAfter`` is.

Pods that are replaced leave a node empty for a moment; news of pods is written
to claims with a delay of up to ten seconds.
"""


def ripe_at(machine: Machine, pool: NodePool) -> datetime | None:
    """Tell when a node that stays empty may go; None for never, or not known yet.

    Counted from the last pod that came or went, else from when the node was ready.
    """
    after, claim = pool.disruption.consolidate_after, machine.claim
    if after is None or claim is None:
        return None
    initialized = claim.conditions.get("Initialized")
    since = claim.last_pod_event or (initialized.since if initialized is not None else None)
    if since is None:
        return None
    return max(since, machine.emptied or since) + max(after, SETTLE)


def wish(machine: Machine, pool: NodePool | None, now: datetime) -> Wish:
    """Say whether a machine is to be given back for being empty; cheap for those that are not."""
    claim = machine.claim
    if claim is None or pool is None or pool.replicas is not None:
        return NO_WISH
    if not is_empty(machine.pods):
        return NO_WISH
    if pool.disruption.consolidate_after is None:
        return Wish(never=f"NodePool {pool.name!r} has consolidateAfter: Never")
    if machine.room_wanted:
        return Wish(never="a CapacityBuffer counts on its room")
    ripe = ripe_at(machine, pool)
    if ripe is None or not is_true(claim.conditions, "Consolidatable"):
        return NO_WISH
    return Wish(now=True) if ripe <= now else Wish(at=ripe)


def decide(question: Question) -> Decision:
    """Choose who goes: what saves most first, as many as each pool's budget has left."""
    remaining = dict(question.room)
    chosen: list[Candidate] = []
    over: list[Candidate] = []
    for one in sorted(question.candidates, key=lambda one: (-one.savings_ratio, one.node.name)):
        if remaining.get(one.pool.name, 0) > 0:
            remaining[one.pool.name] -= 1
            chosen.append(one)
        else:
            over.append(one)
    saving = sum(one.price for one in chosen)
    moves = (Move(removed=tuple(chosen), saving=saving),) if chosen else ()
    return Decision(moves, tuple(over))


EMPTINESS: Final = Method(
    reason=Reason.EMPTY,
    label=lambda _: "empty",
    manner=Manner.GRACEFUL,
    wish=wish,
    decide=decide,
)
