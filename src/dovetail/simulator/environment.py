"""Environment of a simulated process: random numbers, log, metrics and executor."""

from collections import defaultdict, deque
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeVar

from dovetail.logs import LogLine
from dovetail.ports.metric_types import Counter, Gauge, Histogram, L, Metric

T = TypeVar("T")
_MASK: Final = (1 << 64) - 1
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' alphabet for generated names: no vowels, so no words by accident."""


class SeededRandomSource:
    """``ports.randomness.RandomSource`` from a seed, by splitmix64."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def random(self) -> float:
        return (self._next() >> 11) / (1 << 53)

    def alphanumeric(self, length: int) -> str:
        return "".join([_LETTERS[self._next() % len(_LETTERS)] for _ in range(length)])

    def _next(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)


class SimulatedLog:
    """``ports.telemetry.Log`` that keeps the latest lines and calls listeners."""

    def __init__(self, now: Callable[[], datetime], *, keep: int = 1000) -> None:
        self._now = now
        self.lines: deque[LogLine] = deque(maxlen=keep)
        self.listeners: list[Callable[[LogLine], None]] = []

    def debug(self, message: str, **fields: Any) -> None:
        self._write("DEBUG", message, fields)

    def info(self, message: str, **fields: Any) -> None:
        self._write("INFO", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._write("ERROR", message, fields)

    def _write(self, level: str, message: str, fields: dict[str, Any]) -> None:
        line = LogLine(self._now(), level, message, fields)
        self.lines.append(line)
        for listener in self.listeners:
            listener(line)


_Series = tuple[str, frozenset[tuple[str, str]]]


class SimulatedMetrics:
    """``ports.telemetry.Metrics``: counters and gauges by name and labels."""

    def __init__(self) -> None:
        self._sums: dict[_Series, float] = defaultdict(float)
        self._series: dict[tuple[str, Any], _Series] = {}
        """Name and labels of a metric → its series, whose labels have been checked."""

    def inc(self, counter: Counter[L], labels: L, by: float = 1) -> None:
        self._sums[self._find_series(counter, labels)] += by

    def observe(self, histogram: Histogram[L], value: float, labels: L) -> None:
        """Check the labels and drop the value."""
        self._find_series(histogram, labels)

    def set(self, gauge: Gauge[L], value: float, labels: L) -> None:
        self._sums[self._find_series(gauge, labels)] = value

    def _find_series(self, metric: Metric[L], labels: L) -> _Series:
        series = self._series.get((metric.name, labels))
        if series is None:
            series = (metric.name, frozenset(metric.label_values(labels).items()))
            self._series[metric.name, labels] = series
        return series

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of all series of a metric with at least these labels."""
        return sum(
            value
            for (metric, series), value in self._sums.items()
            if metric == name and series.issuperset(labels.items())
        )


class InlineExecutor:
    """``ports.executor.Executor``: runs inline; decisions take no virtual time."""

    async def run(self, function: Callable[[], T]) -> T:
        return function()
