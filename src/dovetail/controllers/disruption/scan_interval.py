"""Scan interval: how often a method evaluates the whole cluster."""

from datetime import datetime, timedelta
from typing import Final

MIN_INTERVAL: Final = timedelta(seconds=10)
MAX_INTERVAL: Final = timedelta(minutes=5)
"""Prices and unavailable offerings change without watch events; a scan runs at least so often."""
_INTERVAL_PER_NODE: Final = timedelta(milliseconds=10)
"""A scan takes up to 0.5 ms of CPU per node, so scans use at most 5% of a core."""
_INTERVAL_PER_NODE_AFTER_COMMANDS: Final = timedelta(milliseconds=15)
"""Shorter than usual for small clusters; pods that move keep a large cluster busy."""
_MAX_FRUITLESS_FACTOR: Final = 3
"""Scans that find nothing extend the interval up to this factor."""
_LARGE: Final = 100
"""Nodes of a cluster in which some pods come and go between any two scans."""
_INTERVAL_PER_NODE_IF_LARGE: Final = timedelta(milliseconds=300)
"""A later scan finds the same commands, and more of them at once."""
_MAX_INTERVAL_IF_LARGE: Final = timedelta(minutes=1)
"""Half of it while commands wait for a budget. Longer, and the price of nodes that stay idle shows."""
_MAX_FRUITLESS_FACTOR_IF_LARGE: Final = 12
"""In a large cluster, until the pods of a whole node have left."""


class ScanInterval:
    """Decides when a method may scan the whole cluster next.

    A scan needs a change since the previous one. In a cluster whose pods change
    all the time, scans become less frequent while they find nothing.
    """

    def __init__(self, *, is_frequent: bool = False) -> None:
        """``is_frequent``: scan a large cluster as often as a small one."""
        self._is_frequent = is_frequent
        self._has_changes = True
        self._freed_nodes = 0.0
        """Pods that left since the last scan started, in nodes that they would fill."""
        self._fruitless_scans = 0
        self._not_before: datetime | None = None
        self._not_before_if_freed: datetime | None = None
        """The same if the pods of a whole node have left."""
        self._not_after: datetime | None = None

    def notify_change(self, freed_nodes: float = 0.0) -> bool:
        """Note a change; return True if the next scan may run earlier because of it.

        ``freed_nodes`` is the share of a node that it makes room for.
        """
        is_first, was_freed = not self._has_changes, self._freed_nodes >= 1
        self._has_changes = True
        self._freed_nodes += freed_nodes
        return is_first or (self._freed_nodes >= 1 and not was_freed)

    def reset(self) -> None:
        """Allow a scan at once, for a change that users wait for."""
        self._has_changes, self._fruitless_scans = True, 0
        self._not_before = self._not_before_if_freed = None

    def next_scan_at(self, now: datetime) -> datetime:
        """Return the time of the next scan; a time in the past means now."""
        if self._has_changes or self._not_after is None:
            return (self._not_before_if_freed if self._freed_nodes >= 1 else self._not_before) or now
        return self._not_after

    def start_scan(self) -> None:
        """Start a scan: changes from now on need another one."""
        self._has_changes, self._freed_nodes = False, 0.0

    def finish_scan(
        self, now: datetime, *, nodes: int, found_commands: bool, rescan_at: datetime | None = None
    ) -> None:
        """Record the result; ``rescan_at`` is when time alone may change it.

        That is now if commands wait for a budget.
        """
        self._fruitless_scans = 0 if found_commands else self._fruitless_scans + 1
        usual = min(max(_INTERVAL_PER_NODE * nodes, MIN_INTERVAL), MAX_INTERVAL)
        factor = factor_if_freed = min(max(self._fruitless_scans, 1), _MAX_FRUITLESS_FACTOR)
        if nodes >= _LARGE and not self._is_frequent and not found_commands:
            factor = min(2 ** min(self._fruitless_scans - 1, 4), _MAX_FRUITLESS_FACTOR_IF_LARGE)
        interval, interval_if_freed = usual * factor, usual * factor_if_freed
        if found_commands:
            # Commands over budget follow soon; those that started keep nodes busy anyway.
            interval = interval_if_freed = min(_INTERVAL_PER_NODE_AFTER_COMMANDS * nodes, usual)
        if nodes >= _LARGE and not self._is_frequent:
            least = min(_INTERVAL_PER_NODE_IF_LARGE * nodes, _MAX_INTERVAL_IF_LARGE)
            is_over_budget = rescan_at is not None and rescan_at <= now
            least = least / 2 if is_over_budget else least
            interval, interval_if_freed = max(interval, least), max(interval_if_freed, least)
        self._not_before = now + min(interval, MAX_INTERVAL)
        self._not_before_if_freed = now + min(interval_if_freed, MAX_INTERVAL)
        latest = now + MAX_INTERVAL if rescan_at is None else min(now + MAX_INTERVAL, rescan_at)
        self._not_after = max(latest, self._not_before) if nodes else latest
        self._has_changes = self._has_changes or found_commands
