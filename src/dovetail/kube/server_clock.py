"""Clock of an API server, from the Date header of its responses."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from dovetail.ports.event_loop import Clock

_RESOLUTION: Final = timedelta(seconds=1)
"""A Date header has whole seconds, rounded down."""


class ServerClock:
    """Current time of the API server, which sets the times of objects.

    Ages need this clock: the local one may be wrong, and a simulated cluster may be
    ahead of it. Until the first response, it equals the local clock.
    """

    def __init__(self, local: Clock) -> None:
        self._local = local
        self.offset = timedelta()
        """Time of the API server minus local time."""

    def now(self) -> datetime:
        return self._local.now() + self.offset

    def local_now(self) -> datetime:
        return self._local.now()

    def observe(self, date: str, *, requested_at: datetime) -> None:
        """Correct the offset by the Date header of a response that has just arrived.

        The header was written since ``requested_at``, in local time, so it bounds the
        offset. An offset within the bounds stays: the clock does not jitter.
        """
        try:
            written_at = parsedate_to_datetime(date)
            if written_at.tzinfo is None:
                written_at = written_at.replace(tzinfo=UTC)
            written_at = written_at.astimezone(UTC)
        except (ValueError, OverflowError):
            return  # No header, or not a date: a proxy may have removed it.
        lowest = written_at - self._local.now()
        highest = written_at + _RESOLUTION - requested_at
        self.offset = min(max(self.offset, lowest), highest)
