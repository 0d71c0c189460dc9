"""A replacement under way: what its claims say of it, and what is to be done about it.

All of it is written on the new claims when they are made, and the nodes that go
have their taint. So whoever comes after a crash goes on where it was cut short.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true

STARTING: Final = timedelta(seconds=30)
"""Claims that are made together are all there by then, or their maker has died."""
_EACH: Final = timedelta(milliseconds=80)
_LEAST: Final = timedelta(minutes=10)
_MOST: Final = timedelta(hours=1)


class Leaving(msgspec.Struct, frozen=True, order=True):
    """A claim that is to go."""

    name: str
    uid: str


class Undertaking(msgspec.Struct, frozen=True, kw_only=True):
    """Claims that go as soon as all those are ready that were made for them."""

    leaving: tuple[Leaving, ...]
    replacements: tuple[str, ...]

    @property
    def key(self) -> str:
        return ",".join(self.replacements)

    def annotations(self) -> dict[str, str]:
        """Return what each of its new claims says."""
        return {
            label_keys.REPLACES: ",".join(f"{one.name}/{one.uid}" for one in self.leaving),
            label_keys.REPLACEMENTS: self.key,
        }


def undertaking(claims: Iterable[NodeClaim], replacements: Iterable[str]) -> Undertaking:
    """Return what is begun when claims are to go for new ones of these names."""
    leaving = sorted(Leaving(one.name, one.uid) for one in claims)
    return Undertaking(leaving=tuple(leaving), replacements=tuple(sorted(replacements)))


def read_undertaking(claim: NodeClaim) -> Undertaking | None:
    """Return what a claim was made for, where it replaces others."""
    leaving = claim.annotations.get(label_keys.REPLACES, "")
    together = claim.annotations.get(label_keys.REPLACEMENTS, "")
    if not leaving or not together:
        return None
    pairs = (entry.partition("/") for entry in leaving.split(","))
    return Undertaking(
        leaving=tuple(Leaving(name, uid) for name, _, uid in pairs),
        replacements=tuple(together.split(",")),
    )


def patience(nodes: int) -> timedelta:
    """Return how long replacements may take while so many nodes wait for theirs."""
    return min(max(_EACH * nodes, _LEAST), _MOST)


class Verdict(StrEnum):
    """What is to be done about an undertaking."""

    WAIT = "wait"
    FINISH = "finish"
    """Delete the claims that are to go."""
    ROLL_BACK = "roll back"
    """Let the nodes live on; what was made for them stays, as any other node."""
    OVER = "over"


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done, to whom, and why or until when."""

    verdict: Verdict
    staying: tuple[NodeClaim, ...] = ()
    """Those that were to go and are not going yet."""
    unready: tuple[NodeClaim, ...] = ()
    """Replacements that are waited for."""
    because: str = ""
    until: datetime | None = None


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """How an undertaking looks at the world."""

    now: datetime
    claim: Callable[[str], NodeClaim | None]
    marked: Callable[[NodeClaim], bool]
    """Whether new pods are kept away from a claim's node."""
    nodes: int
    """How many nodes wait for replacements, of all undertakings together."""


def judge(one: Undertaking, sight: Sight) -> Judgement:
    """Say what to do about nodes that wait for their replacements."""
    staying = tuple(claim for it in one.leaving if (claim := _still_there(it, sight)))
    if not staying:
        return Judgement(verdict=Verdict.OVER)
    made = [claim for name in one.replacements if (claim := sight.claim(name)) is not None]
    ours = [claim for claim in made if not claim.deleting and read_undertaking(claim) == one]
    unready = tuple(claim for claim in ours if not is_true(claim.conditions, "Initialized"))
    begun = min((claim.created for claim in ours if claim.created), default=sight.now)
    unmarked = [claim.name for claim in staying if not sight.marked(claim)]
    problem = ""
    if unmarked:
        problem = f"the taint of {unmarked[0]} was taken off"
    elif len(ours) < len(one.replacements):
        if _may_be_starting(ours, made, sight.now):
            return Judgement(verdict=Verdict.WAIT, until=begun + STARTING)
        lost = sorted(set(one.replacements) - {claim.name for claim in ours})
        problem = f"replacement {', '.join(lost)} is gone"
    elif not unready:
        return Judgement(verdict=Verdict.FINISH, staying=staying)
    elif sight.now >= begun + patience(sight.nodes):
        problem = f"replacement {unready[0].name} was not ready in time"
    if problem:
        return Judgement(
            verdict=Verdict.ROLL_BACK, staying=staying, unready=unready, because=problem
        )
    return Judgement(
        verdict=Verdict.WAIT, staying=staying, unready=unready, until=begun + patience(sight.nodes)
    )


def _may_be_starting(ours: Sequence[NodeClaim], made: Sequence[NodeClaim], now: datetime) -> bool:
    """Tell whether the others may just not have been written yet."""
    if len(ours) < len(made):
        return False  # Somebody deletes one, or has begun to roll back.
    created = [one.created for one in ours if one.created is not None]
    return bool(created) and now < min(created) + STARTING


def _still_there(one: Leaving, sight: Sight) -> NodeClaim | None:
    claim = sight.claim(one.name)
    if claim is None or claim.uid != one.uid or claim.deleting:
        return None
    return None if is_true(claim.conditions, "InstanceTerminating") else claim
