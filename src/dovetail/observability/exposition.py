"""Metrics exposition: the response to a scrape, with metrics of process and cluster."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime

from dovetail import __version__
from dovetail.observability.cluster_metrics import GetTypes, collect, format_gauges
from dovetail.observability.health import Health
from dovetail.observability.prometheus import PrometheusMetrics
from dovetail.ports.event_loop import Clock
from dovetail.ports.metrics import (
    ACTIVE_WORKERS,
    LEADER_STATUS,
    WORKQUEUE_DEPTH,
    ControllerLabels,
    NameLabels,
)
from dovetail.state.cluster.cache import ClusterCache

QueueMetrics = tuple[str, int, int]
"""Controller, queue depth, active workers."""


class MetricsExposition:
    """Formats all metrics in a thread.

    A large cluster has tens of thousands of lines; the event loop only collects
    the values.
    """

    def __init__(self, metrics: PrometheusMetrics, *, clock: Clock, per_node_metrics: bool = True) -> None:
        self._metrics = metrics
        self._clock = clock
        self._per_node_metrics = per_node_metrics
        self._cache: ClusterCache | None = None
        self._get_types: GetTypes = lambda _: ()
        self._disconnected_since: Callable[[], datetime | None] = lambda: None
        self._get_queues: Callable[[], Iterable[QueueMetrics]] = tuple
        self._lock = asyncio.Lock()

    def set_cluster(
        self,
        cache: ClusterCache,
        get_types: GetTypes,
        *,
        disconnected_since: Callable[[], datetime | None] = lambda: None,
    ) -> None:
        """Include the cluster's metrics; ``get_types`` gives prices.

        ``disconnected_since`` returns the time since which watches fail, if they do.
        """
        self._cache = cache
        self._get_types = get_types
        self._disconnected_since = disconnected_since

    def set_queues(self, get_queues: Callable[[], Iterable[QueueMetrics]]) -> None:
        """Include the work queues of the controllers."""
        self._get_queues = get_queues

    def remove_deleted_nodepools(self) -> None:
        """Remove the series of deleted NodePools, whether or not metrics are scraped."""
        if self._cache is not None:
            self._metrics.remove_stale_gauges("nodepool", {pool.name for pool in self._cache.pools()})

    async def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        async with self._lock:
            for name, depth, active in self._get_queues():
                self._metrics.set(WORKQUEUE_DEPTH, depth, NameLabels(name=name))
                self._metrics.set(ACTIVE_WORKERS, active, ControllerLabels(controller=name))
            sample = None
            if self._cache is not None:
                sample = collect(
                    self._cache,
                    self._clock.now(),
                    self._get_types,
                    disconnected_since=self._disconnected_since(),
                )
                self.remove_deleted_nodepools()
            process_text = await asyncio.to_thread(self._metrics.text)
            if sample is None:
                return process_text
            return process_text + await asyncio.to_thread(
                format_gauges, sample, per_node=self._per_node_metrics
            )


class ProcessObservability:
    """Metrics, health and their exposition; one instance per process."""

    def __init__(self, clock: Clock, *, per_node_metrics: bool = True) -> None:
        self.metrics = PrometheusMetrics(version=__version__)
        self.health = Health()
        self.exposition = MetricsExposition(self.metrics, clock=clock, per_node_metrics=per_node_metrics)

    def set_leader(self, is_leader: bool) -> None:
        """Report whether this replica is the leader."""
        self.metrics.set(LEADER_STATUS, int(is_leader), NameLabels(name="dovetail"))
