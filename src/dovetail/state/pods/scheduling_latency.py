"""Time from the first observation of a pending pod to its first scheduling decision."""

from datetime import datetime, timedelta


class SchedulingLatency:
    """Start of waiting of each pod, by UID; kept until the pod is deleted."""

    def __init__(self) -> None:
        self._pending_since: dict[str, datetime | None] = {}

    def record_pending(self, uid: str, now: datetime) -> None:
        """Record that a pod is pending, if it is not recorded yet."""
        self._pending_since.setdefault(uid, now)

    def record_decision(self, uid: str, now: datetime) -> timedelta | None:
        """Return the time to the first decision about a pod; None for later decisions."""
        since = self._pending_since.get(uid)
        if since is None:
            return None
        self._pending_since[uid] = None
        return now - since

    def remove(self, uid: str) -> None:
        """Remove a deleted pod."""
        self._pending_since.pop(uid, None)
