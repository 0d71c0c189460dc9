"""The log of a real process: one line of JSON each, on whatever it is given."""

from collections.abc import Callable
from typing import Any, Final

from dovetail.logs import Line
from dovetail.ports.loop import Clock

LEVELS: Final = ("debug", "info", "error")


class JsonLog:
    """``ports.telemetry.Log`` in the form operators know from Karpenter."""

    def __init__(self, write: Callable[[str], None], *, clock: Clock, level: str = "info") -> None:
        """``write`` is given lines without an end; what is below ``level`` is not told."""
        self._write = write
        self._clock = clock
        self._told = frozenset(LEVELS[LEVELS.index(level) :])

    def debug(self, message: str, **fields: Any) -> None:
        self._tell("debug", message, fields)

    def info(self, message: str, **fields: Any) -> None:
        self._tell("info", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._tell("error", message, fields)

    def _tell(self, level: str, message: str, fields: dict[str, Any]) -> None:
        if level in self._told:
            self._write(Line(self._clock.now(), level.upper(), message, fields).as_json())


class NoMetrics:
    """``ports.telemetry.Metrics`` that nobody asks for."""

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        """Leave it uncounted."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Leave it unobserved."""

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Leave it unmeasured."""
