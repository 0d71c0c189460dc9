"""What every method of taking nodes away has: whom it wants, and whom of those first."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from dovetail.core.disruption.budgets import Reason
from dovetail.core.disruption.candidates import Candidate, Machine, Manner
from dovetail.model.nodepool import NodePool


class Wish(msgspec.Struct, frozen=True):
    """Whether a method wants a machine."""

    now: bool = False
    at: datetime | None = None
    """When it will, if nothing happens until then."""
    never: str = ""
    """Why it would, but for a setting; for people."""


NO_WISH: Final = Wish()


class Choice(msgspec.Struct, frozen=True):
    """Candidates to disrupt now, and those for which their pool has no budget left."""

    chosen: tuple[Candidate, ...] = ()
    over_budget: tuple[Candidate, ...] = ()


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """One reason to take nodes away."""

    reason: Reason
    label: str
    """The consolidation type of metrics."""
    manner: Manner
    wish: Callable[[Machine, NodePool | None, datetime], Wish]
    """Cheap for the many machines that it does not want."""
    choose: Callable[[Iterable[Candidate], Mapping[str, int]], Choice]
    """Takes how many nodes each pool's budget has left."""
