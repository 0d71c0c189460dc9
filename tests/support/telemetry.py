"""Log, metrics and Events that a test can read afterwards."""

from typing import Any

import msgspec

from dovetail.ports.metric_types import Counter, Gauge, Histogram, L
from dovetail.ports.telemetry import EventObject, EventReason, get_resource


class Line(msgspec.Struct, frozen=True):
    """One line of the log."""

    level: str
    message: str
    fields: dict[str, Any]


class RecordedLog:
    """``ports.telemetry.Log``."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def debug(self, message: str, **fields: Any) -> None:
        self.lines.append(Line("debug", message, fields))

    def info(self, message: str, **fields: Any) -> None:
        self.lines.append(Line("info", message, fields))

    def error(self, message: str, **fields: Any) -> None:
        self.lines.append(Line("error", message, fields))

    def entries(self, message: str) -> list[dict[str, Any]]:
        """Return the fields of every line with this message."""
        return [line.fields for line in self.lines if line.message == message]


class RecordedMetrics:
    """``ports.telemetry.Metrics``."""

    def __init__(self) -> None:
        self.values: dict[str, list[tuple[float, dict[str, str]]]] = {}

    def inc(self, counter: Counter[L], labels: L, by: float = 1) -> None:
        self._record(counter.name, by, counter.label_values(labels))

    def observe(self, histogram: Histogram[L], value: float, labels: L) -> None:
        self._record(histogram.name, value, histogram.label_values(labels))

    def set(self, gauge: Gauge[L], value: float, labels: L) -> None:
        name, values = gauge.name, gauge.label_values(labels)
        self.values[name] = [entry for entry in self.values.get(name, []) if entry[1] != values]
        self._record(name, value, values)

    def total(self, name: str, **labels: str) -> float:
        """Return the sum over all series with these labels."""
        series = self.values.get(name, [])
        return sum(value for value, values in series if labels.items() <= values.items())

    def _record(self, name: str, value: float, labels: dict[str, str]) -> None:
        self.values.setdefault(name, []).append((value, labels))


class RecordedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One Event."""

    kind: str
    name: str
    reason: str
    message: str
    warning: bool


class RecordedEvents:
    """``ports.telemetry.Events`` without deduplication."""

    def __init__(self) -> None:
        self.published: list[RecordedEvent] = []

    def publish(
        self, obj: EventObject, event: EventReason, message: str, *, dedupe_key: tuple[str, ...] = ()
    ) -> None:
        self.published.append(
            RecordedEvent(
                kind=get_resource(obj).kind,
                name=obj.name,
                reason=event.reason,
                message=message,
                warning=event.is_warning,
            )
        )

    def reasons(self, name: str) -> list[str]:
        """Return the reasons of an object's Events, in order."""
        return [event.reason for event in self.published if event.name == name]
