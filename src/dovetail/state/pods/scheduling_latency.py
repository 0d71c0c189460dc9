"""How long pods waited until it was decided about them."""

from datetime import datetime, timedelta


class Decisions:
    """Since when each pod has been asking; kept for as long as the pod is there."""

    def __init__(self) -> None:
        self._asked: dict[str, datetime | None] = {}

    def asked(self, uid: str, now: datetime) -> None:
        """Note that a pod waits, unless it is known already."""
        self._asked.setdefault(uid, now)

    def decided(self, uid: str, now: datetime) -> timedelta | None:
        """Return how long the first decision about a pod took; None for later ones."""
        since = self._asked.get(uid)
        if since is None:
            return None
        self._asked[uid] = None
        return now - since

    def forget(self, uid: str) -> None:
        """Let go of a pod that is gone."""
        self._asked.pop(uid, None)
