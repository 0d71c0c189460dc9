"""Log lines of the controllers as text."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from dovetail.logs import LogLine

_OMITTED_FIELDS: Final = frozenset({"provider_id", "allocatable", "requests"})
"""Fields that are not shown."""
ALIGNED: Final = len("computed new nodeclaim(s) to fit pod(s)")
"""Width of the message column."""


class LogPrinter:
    """Formats log lines from INFO up; repeated lines are folded.

    If messages at one instant are equal, it prints ``fold`` of them, then the
    number of the others.
    """

    def __init__(self, start: datetime, put: Callable[[str], None], *, fold: int, aligned: int) -> None:
        self._start = start
        self._put = put
        self._fold = fold
        self._aligned = aligned
        self._latest: tuple[datetime, str] | None = None
        self._times = 0

    def log(self, line: LogLine) -> None:
        if line.level == "DEBUG":
            return
        if self._latest != (line.at, line.message):
            self.finish()
            self._latest = (line.at, line.message)
        self._times += 1
        if self._times <= self._fold:
            error = "" if line.level == "INFO" else f"{line.level.lower()}: "
            self._print(line.at, error + line.message, _fields(line.fields))

    def finish(self) -> None:
        """Print the number of folded lines."""
        if self._latest is not None and self._times > self._fold:
            time, message = self._latest
            self._print(time, message, f"… and {self._times - self._fold} more")
        self._latest, self._times = None, 0

    def print(self, time: datetime, text: str) -> None:
        """Print a text that is not a log line."""
        self.finish()
        self._put(f"{elapsed(self._start, time)}  {text}")

    def _print(self, time: datetime, message: str, details: str) -> None:
        self._put(f"{elapsed(self._start, time)}    {message:{self._aligned}}  {details}".rstrip())


def elapsed(start: datetime, time: datetime) -> str:
    """Return the virtual seconds since the start, aligned."""
    return f"{(time - start).total_seconds():8.1f} s"


def _fields(fields: Mapping[str, Any]) -> str:
    return "  ".join(
        f"{key}={_format_value(value)}"
        for key, value in fields.items()
        if key not in _OMITTED_FIELDS and value
    )


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}:{item}" for key, item in value.items())
    return str(value)
