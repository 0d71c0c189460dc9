"""What controllers told: logs, metrics and Events, kept for a test to read."""

from datetime import timedelta
from typing import Any

import msgspec

from dovetail.ports.api_resources import Resource
from dovetail.ports.telemetry import DEDUPE


class Line(msgspec.Struct, frozen=True):
    """One line of the log."""

    level: str
    message: str
    fields: dict[str, Any]


class KeptLog:
    """``ports.telemetry.Log``."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def debug(self, message: str, **fields: Any) -> None:
        self.lines.append(Line("debug", message, fields))

    def info(self, message: str, **fields: Any) -> None:
        self.lines.append(Line("info", message, fields))

    def error(self, message: str, **fields: Any) -> None:
        self.lines.append(Line("error", message, fields))

    def said(self, message: str) -> list[dict[str, Any]]:
        """The fields of every line with this message."""
        return [line.fields for line in self.lines if line.message == message]


class KeptMetrics:
    """``ports.telemetry.Metrics``."""

    def __init__(self) -> None:
        self.values: dict[str, list[tuple[float, dict[str, str]]]] = {}

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        self._keep(name, by, labels)

    def observe(self, name: str, value: float, **labels: str) -> None:
        self._keep(name, value, labels)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        self.values[name] = [one for one in self.values.get(name, []) if one[1] != labels]
        self._keep(name, value, labels)

    def total(self, name: str, **labels: str) -> float:
        """The sum over everything that has at least these labels."""
        return sum(
            value for value, known in self.values.get(name, []) if labels.items() <= known.items()
        )

    def _keep(self, name: str, value: float, labels: dict[str, str]) -> None:
        self.values.setdefault(name, []).append((value, labels))


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One Event."""

    kind: str
    name: str
    reason: str
    message: str
    warning: bool


class KeptEvents:
    """``ports.telemetry.Events``; keeps every telling, also those that would be dropped."""

    def __init__(self) -> None:
        self.told: list[Told] = []

    def publish(
        self,
        resource: Resource,
        name: str,
        *,
        reason: str,
        message: str,
        namespace: str = "",
        uid: str = "",
        warning: bool = False,
        same: tuple[str, ...] = (),
        dedupe: timedelta = DEDUPE,
    ) -> None:
        self.told.append(
            Told(kind=resource.kind, name=name, reason=reason, message=message, warning=warning)
        )

    def about(self, name: str) -> list[str]:
        """The reasons told of an object, in order."""
        return [one.reason for one in self.told if one.name == name]
