"""Log writer: JSON or text lines to a function."""

from collections.abc import Callable
from typing import Any, Final

from dovetail.logs import LogLine
from dovetail.ports.event_loop import Clock

LEVELS: Final = ("debug", "info", "error")
FORMATS: Final[dict[str, Callable[[LogLine], str]]] = {"json": LogLine.as_json, "text": LogLine.as_text}


class LineLog:
    """``ports.telemetry.Log``; the JSON has Karpenter's keys."""

    def __init__(
        self, write: Callable[[str], None], *, clock: Clock, level: str = "info", form: str = "json"
    ) -> None:
        """``write`` receives lines without line end; ``level`` is the lowest level written."""
        self._write = write
        self._form = FORMATS[form]
        self._clock = clock
        self._levels = frozenset(LEVELS[LEVELS.index(level) :])

    def debug(self, message: str, **fields: Any) -> None:
        self._log("debug", message, fields)

    def info(self, message: str, **fields: Any) -> None:
        self._log("info", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._log("error", message, fields)

    def _log(self, level: str, message: str, fields: dict[str, Any]) -> None:
        if level in self._levels:
            self._write(self._form(LogLine(self._clock.now(), level.upper(), message, fields)))
