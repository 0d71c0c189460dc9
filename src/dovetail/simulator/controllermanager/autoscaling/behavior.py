"""Scaling behavior of a HorizontalPodAutoscaler: stabilization windows and policies."""

from collections import deque
from collections.abc import Mapping
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final

_DEFAULT_UP: Final[Mapping[str, Any]] = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DEFAULT_DOWN: Final[Mapping[str, Any]] = {
    "stabilizationWindowSeconds": 300,
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}
_SMALL: Final = 4
"""Replicas that a single sync may always reach, without policies."""
_HISTORY: Final = timedelta(hours=1)
"""Longest window or period that Kubernetes accepts."""


class ScalingHistory:
    """Recommendations and changes of one autoscaler; a restart loses them, as in Kubernetes."""

    def __init__(self) -> None:
        self._recommendations: deque[tuple[datetime, int]] = deque()
        self._changes: deque[tuple[datetime, int]] = deque()
        """Time and difference of each change of the replicas."""

    def record_change(self, now: datetime, difference: int) -> None:
        self._changes.append((now, difference))

    def limit(self, behavior: Mapping[str, Any] | None, now: datetime, current: int, desired: int) -> int:
        """Return the replicas that windows and policies allow now.

        An autoscaler without ``behavior`` has no policies: each sync may double the replicas.
        """
        for queue in (self._recommendations, self._changes):
            while queue and now - queue[0][0] > _HISTORY:
                queue.popleft()
        if not self._recommendations:
            # A new autoscaler scales down only after its window.
            self._recommendations.append((now, current))
        self._recommendations.append((now, desired))
        up = {**_DEFAULT_UP, **((behavior or {}).get("scaleUp") or {})}
        down = {**_DEFAULT_DOWN, **((behavior or {}).get("scaleDown") or {})}
        stabilized = self._stabilize(now, current, up, down)
        if stabilized > current and behavior is None:
            return min(stabilized, max(2 * current, _SMALL))
        if stabilized > current:
            return max(current, min(stabilized, self._bound(up, now, current, sign=1)))
        if stabilized < current:
            return min(current, max(stabilized, self._bound(down, now, current, sign=-1)))
        return current

    def _stabilize(self, now: datetime, current: int, up: Mapping[str, Any], down: Mapping[str, Any]) -> int:
        def recent(seconds: int) -> list[int]:
            window = timedelta(seconds=seconds)
            # The recommendation of now counts in a window of zero, too.
            values = [replicas for time, replicas in self._recommendations if now - time < window]
            return [*values, self._recommendations[-1][1]]

        lowest = min(recent(up["stabilizationWindowSeconds"]))
        highest = max(recent(down["stabilizationWindowSeconds"]))
        return min(max(current, lowest), highest)

    def _bound(self, rules: Mapping[str, Any], now: datetime, current: int, *, sign: int) -> int:
        if rules["selectPolicy"] == "Disabled":
            return current
        bounds = []
        for policy in rules["policies"]:
            period = timedelta(seconds=policy["periodSeconds"])
            changed = sum(
                difference
                for time, difference in self._changes
                if now - time < period and difference * sign > 0
            )
            start = current - changed
            step = policy["value"] if policy["type"] == "Pods" else start * policy["value"] / 100
            bounds.append(ceil(start + step) if sign > 0 else int(start - step))
        chooses_most = (rules["selectPolicy"] == "Max") is (sign > 0)
        return max(bounds) if chooses_most else min(bounds)
