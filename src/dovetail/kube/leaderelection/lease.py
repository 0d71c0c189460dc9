"""Who may write: the rules of a lease that one of several replicas holds at a time.

No clock of another machine is trusted. A candidate counts by its own clock how
long it has seen a lease unchanged, and takes it only after all of the lease's
duration; a holder counts by its own clock from the beginning of its last
successful renewal, and stops writing a third of the duration earlier. So two
never write at once while no clock runs half as fast again as another.

The same goes for a lease that a hand has deleted or emptied, since its holder
notices only when it renews: whoever knew the lease waits for all of its duration.
Only who sees none when it starts takes it at once.
"""

from enum import Enum
from typing import Final

import msgspec

from dovetail.errors import DovetailError


class NotLeading(DovetailError):
    """A write was not made, because somebody else may be leading by now."""


class LeaseLost(DovetailError):
    """The lease could not be kept; everything in memory may be out of date."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds."""

    duration: float = 15.0
    """Others may take a lease that has not been renewed for so long."""
    renew_deadline: float = 10.0
    """A holder who could not renew for so long writes no more."""
    retry: float = 2.0
    jitter: float = 0.2
    """Each wait is longer by up to this share."""


USUAL: Final = Timing()


GIVEN_UP: Final = 1
"""Seconds that a lease is said to last by who gives it up; Karpenter says so, too."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What a Lease says."""

    holder: str = ""
    """Empty: it was given up, or emptied by hand."""
    duration: float = 0.0
    """A second or less, where it was given up by its holder."""
    transitions: int = 0
    revision: str = ""
    """Another one with every write."""

    @property
    def is_given_up(self) -> bool:
        return not self.holder and self.duration <= GIVEN_UP


class Move(Enum):
    """What to do about a lease."""

    CREATE = "there is none"
    TAKE = "nobody holds it any more"
    RENEW = "it is ours"
    WAIT = "somebody holds it"


class Candidate:
    """One replica's part in the election, without clock and connection.

    ``now`` is always that of one clock of this machine that never goes back and
    does not stand still while the process, or the machine, sleeps.
    """

    def __init__(self, me: str, timing: Timing = USUAL) -> None:
        self.me = me
        self._timing = timing
        self._seen: Record | None = None
        self._since: float | None = None
        """When the record was first seen as it is; None when there never was one."""
        self._until: float | None = None
        """Until when we lead; None before and after."""
        self._is_over = False

    @property
    def seen(self) -> Record | None:
        """The lease as it was last read or written."""
        return self._seen

    def saw(self, record: Record | None, *, now: float) -> None:
        """Take note of what the API server answered, at ``now`` at the latest."""
        if _revision(record) != _revision(self._seen):
            self._since = now
        self._seen = record

    def move(self, *, now: float) -> Move:
        """Decide what to do about the lease as it was last seen."""
        record = self._seen
        if record is not None and record.holder == self.me:
            return Move.RENEW
        if record is not None and record.is_given_up:
            return Move.TAKE
        # Whoever made the lease longer than ours counts on that.
        lasts = max(record.duration if record else 0.0, self._timing.duration)
        if self._since is not None and now - self._since <= lasts:
            return Move.WAIT
        return Move.CREATE if record is None else Move.TAKE

    def wrote(self, record: Record, *, began: float, now: float) -> None:
        """Count a write that made or kept the lease ours, begun at ``began``.

        Who has lost the lease once stays out, although nobody else may have
        noticed: what was refused in between would be missing.
        """
        self.saw(record, now=now)
        if self._until is not None and began >= self._until:
            self._is_over = True
        if not self._is_over:
            self._until = began + self._timing.renew_deadline

    def has_lost(self, *, now: float) -> bool:
        """Tell whether the lease was ours and surely is no more, or not surely."""
        if self._until is None:
            return False
        taken = self._seen is None or self._seen.holder != self.me
        return self._is_over or taken or now >= self._until

    def leads(self, *, now: float) -> bool:
        """Tell whether nobody else can be leading at ``now``."""
        return self._until is not None and not self.has_lost(now=now)

    def resign(self) -> None:
        """Lead no more, from now on."""
        self._is_over = True


def _revision(record: Record | None) -> str:
    return "" if record is None else record.revision
