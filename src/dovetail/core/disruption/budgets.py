"""How many nodes of a pool may be disrupted at once."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from dovetail.core.disruption.cron import next_after, parse_schedule
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import Budget
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.taints import DISRUPTED
from dovetail.model.node import NodeObject

UNLIMITED: Final = 2**31 - 1


class Reason(StrEnum):
    """Why a node is disrupted by our own choice."""

    EMPTY = "Empty"
    DRIFTED = "Drifted"
    UNDERUTILIZED = "Underutilized"


class Census(msgspec.Struct, frozen=True):
    """A pool's nodes as budgets count them."""

    total: int = 0
    disrupting: int = 0
    """Those of them that cannot be counted upon now, whatever the cause."""


class Allowance(msgspec.Struct, frozen=True):
    """What a pool's budgets allow for one reason."""

    allowed: int
    mistakes: tuple[str, ...] = ()
    """Budgets that cannot be read; with one of those, nothing is allowed."""


def is_active(budget: Budget, now: datetime) -> bool:
    """Tell whether a budget holds now; ValueError for a schedule that cannot be read.

    Its window is open for the duration after each time the schedule comes round.
    """
    if budget.schedule is None or budget.duration is None:
        return True
    opened = next_after(parse_schedule(budget.schedule), now - budget.duration)
    return opened is not None and opened <= now


def nodes_of(budget: Budget, total: int) -> int:
    """Return how many nodes out of a total a budget means; a share is rounded up."""
    text = budget.nodes.strip()
    number = text.removesuffix("%")
    if not (number.isascii() and number.isdigit()):
        raise ValueError(f"{budget.nodes!r} is neither a number of nodes nor a share of them")
    return -(-int(number) * total // 100) if text.endswith("%") else int(number)


def allowance(budgets: Iterable[Budget], reason: Reason, *, total: int, now: datetime) -> Allowance:
    """Return how many nodes may be under disruption for a reason: the least that any allows."""
    least, mistakes = UNLIMITED, []
    for budget in budgets:
        try:
            limit = nodes_of(budget, total) if is_active(budget, now) else UNLIMITED
        except ValueError as error:
            mistakes.append(str(error))
            continue
        if not budget.reasons or reason in budget.reasons:
            least = min(least, limit)
    return Allowance(0 if mistakes else least, tuple(mistakes))


def mistakes(budgets: Iterable[Budget]) -> tuple[str, ...]:
    """Return what cannot be read of budgets, whether they would hold now or not."""
    wrong: list[str] = []
    for number, budget in enumerate(budgets):
        try:
            nodes_of(budget, 1)
            if budget.schedule is not None:
                parse_schedule(budget.schedule)
        except ValueError as error:
            wrong.append(f"budgets[{number}]: {error}")
    return tuple(wrong)


def census(machines: Iterable[tuple[NodeClaim, NodeObject | None]]) -> Census:
    """Count a pool's nodes: those that started up, and those of them that are out of order."""
    total = disrupting = 0
    for claim, node in machines:
        if node is None or node.labels.get(label_keys.INITIALIZED) != "true":
            continue
        if is_true(claim.conditions, "InstanceTerminating"):
            continue
        total += 1
        leaving = claim.deleting or node.deleting or DISRUPTED in node.taints
        disrupting += leaving or not node.ready
    return Census(total, disrupting)


def left(allowed: int, counted: Census) -> int:
    """Return how many more nodes may be disrupted now."""
    return max(allowed - counted.disrupting, 0)
