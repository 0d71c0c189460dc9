"""Stuck host groups that the provisioner found, for the disruption controller."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

MIN_WAIT: Final = timedelta(seconds=30)
"""Time for which a group must be stuck: pods on its node may be about to end."""


class StuckHostGroups:
    """Nodes that have no room for pods that must share their host, and since when."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}
        self._handlers: list[Callable[[], None]] = []

    def subscribe(self, handler: Callable[[], None]) -> None:
        """Call a handler when a group has been stuck for long enough."""
        self._handlers.append(handler)

    def record(self, nodes: Iterable[str], now: datetime) -> None:
        """Replace the nodes by those of the latest plan."""
        self._since = {node: self._since.get(node, now) for node in nodes}
        if any(self.is_stuck(node, now) for node in self._since):
            for handler in self._handlers:
                handler()

    def is_stuck(self, node: str, now: datetime) -> bool:
        """Return True if pods have waited for room on a node for long enough to replace it."""
        since = self._since.get(node)
        return since is not None and since + MIN_WAIT <= now
