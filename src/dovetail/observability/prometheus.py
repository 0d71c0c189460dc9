"""The numbers of a real process, as Prometheus reads them."""

import platform
from collections.abc import Container, Iterable
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics import MetricWrapperBase

from dovetail.observability.metric_definitions import METRICS, Kind, Metric

# Else every counter and histogram has a second series that says when it began.
disable_created_metrics()  # type: ignore[no-untyped-call]

_MADE_OF: Final[dict[Kind, type[Counter] | type[Gauge]]] = {
    Kind.COUNTER: Counter,
    Kind.GAUGE: Gauge,
}


class PrometheusMetrics:
    """``ports.telemetry.Metrics`` that can be scraped.

    Telling never fails. A metric that is not in ``metricnames`` gets the labels it first
    comes with; a label that a metric does not have is dropped, one that it has and is
    not told stays empty.
    """

    def __init__(self, known: Iterable[Metric] = METRICS, *, version: str = "") -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._labels: dict[str, tuple[str, ...]] = {}
        self._made: dict[str, MetricWrapperBase] = {}
        for one in known:
            self._make(one)
        ProcessCollector(registry=self._registry)
        Gauge(
            "karpenter_build_info",
            "What runs here.",
            ("version", "python"),
            registry=self._registry,
        ).labels(version, platform.python_version()).set(1)

    def count(self, name: str, by: float = 1, /, **labels: str) -> None:
        made = self._of(name, Kind.COUNTER, labels)
        if isinstance(made, Counter):
            made.inc(by)

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        made = self._of(name, Kind.HISTOGRAM, labels)
        if isinstance(made, Histogram):
            # Clocks that are set back must not make a sum smaller.
            made.observe(max(0.0, value))

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        made = self._of(name, Kind.GAUGE, labels)
        if isinstance(made, Gauge):
            made.set(value)

    def keep_only(self, label: str, values: Container[str]) -> None:
        """Forget the gauges of what is gone: the last value of a deleted NodePool is no news."""
        for name, labels in self._labels.items():
            made = self._made[name]
            if label not in labels or not isinstance(made, Gauge):
                continue
            for family in made.collect():
                for sample in family.samples:
                    if sample.labels[label] not in values:
                        made.remove(*(sample.labels[one] for one in labels))

    def text(self) -> bytes:
        """Write everything in Prometheus' text format; may be called in any thread."""
        return generate_latest(self._registry)

    def _of(self, name: str, kind: Kind, labels: dict[str, str]) -> MetricWrapperBase:
        made = self._made.get(name)
        if made is None:
            made = self._make(Metric(name, kind, tuple(sorted(labels)), ""))
        wanted = self._labels[name]
        return made.labels(*(labels.get(one, "") for one in wanted)) if wanted else made

    def _make(self, metric: Metric) -> MetricWrapperBase:
        made: MetricWrapperBase
        if metric.kind is Kind.HISTOGRAM:
            buckets = metric.buckets or Histogram.DEFAULT_BUCKETS
            made = Histogram(
                metric.name, metric.help, metric.labels, registry=self._registry, buckets=buckets
            )
        else:
            made = _MADE_OF[metric.kind](
                metric.name, metric.help, metric.labels, registry=self._registry
            )
        self._labels[metric.name] = metric.labels
        self._made[metric.name] = made
        return made
