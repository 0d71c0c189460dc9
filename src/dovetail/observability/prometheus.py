"""Prometheus exporter for the metrics of ``ports.metrics``."""

import platform
from collections.abc import Container, Iterable
from typing import Any, TypeVar

import msgspec
import prometheus_client as client
from prometheus_client.metrics import MetricWrapperBase

from dovetail.ports.metric_types import Counter, Gauge, Histogram, Metric
from dovetail.ports.metrics import METRICS

# By default every counter and histogram has a second series with its creation time.
client.disable_created_metrics()  # type: ignore[no-untyped-call]

L = TypeVar("L", bound=msgspec.Struct)


class PrometheusMetrics:
    """``ports.telemetry.Metrics`` on a Prometheus registry.

    Raises ``TypeError`` for labels of another metric, ``KeyError`` for a metric
    that is not in ``METRICS``.
    """

    def __init__(self, metrics: Iterable[Metric[Any]] = METRICS, *, version: str = "") -> None:
        self._registry = client.CollectorRegistry(auto_describe=False)
        self._counters: dict[str, client.Counter] = {}
        self._gauges: dict[str, tuple[client.Gauge, tuple[str, ...]]] = {}
        self._histograms: dict[str, client.Histogram] = {}
        for metric in metrics:
            self._register(metric)
        client.ProcessCollector(registry=self._registry)
        client.Gauge(
            "karpenter_build_info",
            "Version of Dovetail and Python.",
            ("version", "python"),
            registry=self._registry,
        ).labels(version, platform.python_version()).set(1)

    def inc(self, counter: Counter[L], labels: L, by: float = 1) -> None:
        _with_labels(self._counters[counter.name], counter.label_values(labels)).inc(by)

    def observe(self, histogram: Histogram[L], value: float, labels: L) -> None:
        series = _with_labels(self._histograms[histogram.name], histogram.label_values(labels))
        # The wall clock may be set back; a negative duration must not reduce the sum.
        series.observe(max(0.0, value))

    def set(self, gauge: Gauge[L], value: float, labels: L) -> None:
        _with_labels(self._gauges[gauge.name][0], gauge.label_values(labels)).set(value)

    def remove_stale_gauges(self, label: str, values: Container[str]) -> None:
        """Remove gauge series whose label has none of the values, e.g. of deleted NodePools."""
        for gauge, names in self._gauges.values():
            if label not in names:
                continue
            for family in gauge.collect():
                for sample in family.samples:
                    if sample.labels[label] not in values:
                        gauge.remove(*(sample.labels[name] for name in names))

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format; thread-safe."""
        return client.generate_latest(self._registry)

    def _register(self, metric: Metric[Any]) -> None:
        name, names = metric.name, metric.label_names
        match metric:
            case Histogram(buckets=buckets):
                self._histograms[name] = client.Histogram(
                    name, metric.help, names, registry=self._registry, buckets=buckets
                )
            case Gauge():
                gauge = client.Gauge(name, metric.help, names, registry=self._registry)
                self._gauges[name] = gauge, names
            case _:
                self._counters[name] = client.Counter(name, metric.help, names, registry=self._registry)


S = TypeVar("S", bound=MetricWrapperBase)


def _with_labels(metric: S, labels: dict[str, str]) -> S:
    return metric.labels(**labels) if labels else metric
