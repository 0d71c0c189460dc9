"""The log of a real process: lines of JSON, or for the eye, on whatever it is given."""

from collections.abc import Callable
from typing import Any, Final

from dovetail.logs import Line
from dovetail.ports.event_loop import Clock

LEVELS: Final = ("debug", "info", "error")
FORMATS: Final[dict[str, Callable[[Line], str]]] = {"json": Line.as_json, "text": Line.as_text}


class LineLog:
    """``ports.telemetry.Log``; as JSON, in the form operators know from Karpenter."""

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        clock: Clock,
        level: str = "info",
        form: str = "json",
    ) -> None:
        """``write`` is given lines without an end; what is below ``level`` is not told."""
        self._write = write
        self._form = FORMATS[form]
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
            self._write(self._form(Line(self._clock.now(), level.upper(), message, fields)))
