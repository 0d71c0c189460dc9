"""What every method of taking nodes away has: whom it wants, and what it does with them."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.core.disruption.budgets import Reason
from dovetail.core.disruption.candidates import Candidate, Machine, Manner
from dovetail.core.disruption.command import Move, Stay
from dovetail.core.disruption.context import View
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.settings import ConsolidationSettings, SchedulingSettings


class Wish(msgspec.Struct, frozen=True):
    """Whether a method wants a machine."""

    now: bool = False
    at: datetime | None = None
    """When it will, if nothing happens until then."""
    never: str = ""
    """Why it would, but for a setting; for people."""


NO_WISH: Final = Wish()


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a method decides on."""

    candidates: tuple[Candidate, ...]
    room: Mapping[str, int]
    """Pool → how many of its nodes its budgets let go now."""
    view: View | None = None
    """The whole cluster, for methods that look at all of it."""
    spare: Mapping[str, int] = FrozenDict()
    """Static pool → how many of its nodes may have a double for a while."""
    settings: ConsolidationSettings = ConsolidationSettings()
    scheduling: SchedulingSettings = SchedulingSettings()

    @property
    def whole(self) -> View:
        """Return the whole cluster, to a method that was given it."""
        if self.view is None:
            raise ValueError("a method that looks at all was not shown the cluster")
        return self.view


class Decision(msgspec.Struct, frozen=True):
    """What is to be done now, in this order; whom a budget held back; and who stays why."""

    moves: tuple[Move, ...] = ()
    over_budget: tuple[Candidate, ...] = ()
    stays: tuple[Stay, ...] = ()


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """One reason to take nodes away."""

    reason: Reason
    label: Callable[[Move], str]
    """The consolidation type of metrics."""
    manner: Manner
    wish: Callable[[Machine, NodePool | None, datetime], Wish]
    """Cheap for the many machines that it does not want."""
    unfit: Callable[[Candidate], str | None] = lambda _: None
    """Why a candidate is nothing for it after all; for people."""
    decide: Callable[[Question], Decision]
    looks_at_all: bool = False
    """It needs a picture of the whole cluster, and time to think about it."""
    settle: timedelta = timedelta()
    """After so long it is looked whether the decision still holds; only then it is acted on."""
