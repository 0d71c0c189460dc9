"""What the controllers log, as lines for a person."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from dovetail.logs import Line

_UNTOLD: Final = frozenset({"provider_id", "allocatable", "requests"})
"""Fields that say little to somebody who watches."""
ALIGNED: Final = len("computed new nodeclaim(s) to fit pod(s)")
"""Columns for the message, so that what follows is aligned."""


class Teller:
    """Passes on log lines from INFO up, as text; repetitions are folded.

    Of lines that say the same at one instant, ``fold`` are shown, and then how
    many more there are.
    """

    def __init__(
        self, start: datetime, put: Callable[[str], None], *, fold: int, aligned: int
    ) -> None:
        self._start = start
        self._put = put
        self._fold = fold
        self._aligned = aligned
        self._latest: tuple[datetime, str] | None = None
        self._times = 0

    def tell(self, line: Line) -> None:
        if line.level == "DEBUG":
            return
        if self._latest != (line.at, line.message):
            self.finish()
            self._latest = (line.at, line.message)
        self._times += 1
        if self._times <= self._fold:
            error = "" if line.level == "INFO" else f"{line.level.lower()}: "
            self._say(line.at, error + line.message, _fields(line.fields))

    def finish(self) -> None:
        """Say what is folded so far."""
        if self._latest is not None and self._times > self._fold:
            at, message = self._latest
            self._say(at, message, f"… and {self._times - self._fold} more")
        self._latest, self._times = None, 0

    def say(self, at: datetime, text: str) -> None:
        """Say something between the lines."""
        self.finish()
        self._put(f"{since(self._start, at)}  {text}")

    def _say(self, at: datetime, message: str, rest: str) -> None:
        self._put(f"{since(self._start, at)}    {message:{self._aligned}}  {rest}".rstrip())


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
