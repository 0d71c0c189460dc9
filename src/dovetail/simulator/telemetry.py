"""What the controllers in a box tell, kept for whoever wants to show it."""

from collections import defaultdict, deque
from collections.abc import Callable
from datetime import datetime
from typing import Any

from dovetail.logs import Line


class BoxLog:
    """``ports.telemetry.Log`` that keeps the latest lines and tells listeners of each."""

    def __init__(self, now: Callable[[], datetime], *, keep: int = 1000) -> None:
        self._now = now
        self.lines: deque[Line] = deque(maxlen=keep)
        self.listeners: list[Callable[[Line], None]] = []

    def debug(self, message: str, **fields: Any) -> None:
        self._tell("DEBUG", message, fields)

    def info(self, message: str, **fields: Any) -> None:
        self._tell("INFO", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._tell("ERROR", message, fields)

    def _tell(self, level: str, message: str, fields: dict[str, Any]) -> None:
        line = Line(self._now(), level, message, fields)
        self.lines.append(line)
        for listener in self.listeners:
            listener(line)


class BoxMetrics:
    """``ports.telemetry.Metrics``, summed by name and labels."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, frozenset[tuple[str, str]]], float] = defaultdict(float)

    def count(self, name: str, by: float = 1, /, **labels: str) -> None:
        self._sums[(name, frozenset(labels.items()))] += by

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """Leave distributions to a real registry."""

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        self._sums[(name, frozenset(labels.items()))] = value

    def total(self, name: str, **labels: str) -> float:
        """Return the sum over everything that has at least these labels."""
        wanted = labels.items()
        return sum(
            value
            for (known, its), value in self._sums.items()
            if known == name and its.issuperset(wanted)
        )
