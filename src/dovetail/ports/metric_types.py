"""Kinds of metrics: counter, gauge and histogram, each with a type of its labels."""

from typing import ClassVar, Final, Generic, TypeVar

import msgspec

L = TypeVar("L", bound=msgspec.Struct)


class Metric(msgspec.Struct, Generic[L], frozen=True):
    """Definition of a metric: name, label type and help text."""

    kind: ClassVar[str]
    name: str
    labels: type[L]
    help: str

    @property
    def label_names(self) -> tuple[str, ...]:
        return self.labels.__struct_fields__

    def label_values(self, labels: L) -> dict[str, str]:
        """Return labels by name; raises ``TypeError`` if they are another metric's."""
        if type(labels) is not self.labels:
            raise TypeError(f"{self.name} has {self.labels.__name__}, not {type(labels).__name__}")
        return msgspec.structs.asdict(labels)


class Counter(Metric[L], Generic[L], frozen=True):
    """A sum that only grows."""

    kind = "counter"


class Gauge(Metric[L], Generic[L], frozen=True):
    """A value that replaces the previous one."""

    kind = "gauge"


SHORT_SECONDS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8),
    *(0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25),
    *(30, 40, 50, 60),
)
"""Buckets of short durations, in seconds."""


class Histogram(Metric[L], Generic[L], frozen=True):
    """A distribution in buckets."""

    kind = "histogram"
    buckets: tuple[float, ...] = SHORT_SECONDS
