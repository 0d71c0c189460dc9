"""What the controllers log, as lines for a person."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from dovetail.sim.telling import Line

_FOLD: Final = 3
"""So many lines that say the same at one instant are shown; then how many more there are."""
_UNTOLD: Final = frozenset({"provider_id", "allocatable", "requests"})
"""Fields that say little to somebody who watches."""
_MESSAGE: Final = len("computed new nodeclaim(s) to fit pod(s)")
"""The longest of those that are common."""


class Teller:
    """Passes on log lines from INFO up, as text; repetitions are folded."""

    def __init__(self, start: datetime, put: Callable[[str], None]) -> None:
        self._start = start
        self._put = put
        self._latest: tuple[datetime, str] | None = None
        self._times = 0

    def tell(self, line: Line) -> None:
        if line.level == "DEBUG":
            return
        if self._latest != (line.at, line.message):
            self.finish()
            self._latest = (line.at, line.message)
        self._times += 1
        if self._times <= _FOLD:
            error = "" if line.level == "INFO" else f"{line.level.lower()}: "
            self._say(line.at, error + line.message, _fields(line.fields))

    def finish(self) -> None:
        """Say what is folded so far."""
        if self._latest is not None and self._times > _FOLD:
            at, message = self._latest
            self._say(at, message, f"… and {self._times - _FOLD} more")
        self._latest, self._times = None, 0

    def say(self, at: datetime, text: str) -> None:
        """Say something between the lines."""
        self.finish()
        self._put(f"{since(self._start, at)}  {text}")

    def _say(self, at: datetime, message: str, rest: str) -> None:
        self._put(f"{since(self._start, at)}    {message:{_MESSAGE}}  {rest}".rstrip())


def since(start: datetime, at: datetime) -> str:
    """Return virtual seconds since the start, aligned."""
    return f"{(at - start).total_seconds():8.1f} s"


def _fields(fields: Mapping[str, Any]) -> str:
    return "  ".join(
        f"{key}={_spelled(value)}" for key, value in fields.items() if key not in _UNTOLD and value
    )


def _spelled(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}:{one}" for key, one in value.items())
    return str(value)
