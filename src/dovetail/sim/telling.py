"""What the controllers in a box tell, kept for whoever wants to show it."""

from collections import defaultdict, deque
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec

_OBJECTS: Final = {"nodeclaim": "NodeClaim", "node": "Node", "nodepool": "NodePool"}
"""Fields that name an object, and how Karpenter's log writes them."""


class Line(msgspec.Struct, frozen=True):
    """One line of the controllers' log."""

    at: datetime
    level: str
    message: str
    fields: dict[str, Any]

    def as_json(self) -> str:
        """Write it the way operators know Karpenter's log."""
        told: dict[str, Any] = {
            "level": self.level,
            "time": f"{self.at:%Y-%m-%dT%H:%M:%S}.{self.at.microsecond // 1000:03d}Z",
            "logger": "controller",
            "message": self.message,
        }
        for name, value in self.fields.items():
            if value in (None, ""):
                continue
            if name in _OBJECTS:
                told[_OBJECTS[name]] = {"name": value}
            else:
                told[name.replace("_", "-")] = value
        return msgspec.json.encode(told, enc_hook=str).decode()


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

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        self._sums[(name, frozenset(labels.items()))] += by

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Leave distributions to a real registry."""

    def gauge(self, name: str, value: float, **labels: str) -> None:
        self._sums[(name, frozenset(labels.items()))] = value

    def total(self, name: str, **labels: str) -> float:
        """Return the sum over everything that has at least these labels."""
        wanted = labels.items()
        return sum(
            value
            for (known, its), value in self._sums.items()
            if known == name and its.issuperset(wanted)
        )
