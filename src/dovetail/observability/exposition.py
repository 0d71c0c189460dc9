"""What a scrape is answered with: the process' own numbers, and the cluster's."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime

from dovetail.observability.cluster_metrics import Types, look, written
from dovetail.observability.prometheus import PrometheusMetrics
from dovetail.ports.event_loop import Clock
from dovetail.state.cluster.cache import Mirror

Load = tuple[str, int, int]
"""A controller, how many looks wait for it, how many it takes."""


class Scraping:
    """Everything in Prometheus' text format, written beside the loop.

    A large cluster has tens of thousands of lines; the loop only takes hold of what
    they are made of.
    """

    def __init__(self, metrics: PrometheusMetrics, *, clock: Clock, each_node: bool = True) -> None:
        self._metrics = metrics
        self._clock = clock
        self._each_node = each_node
        self._mirror: Mirror | None = None
        self._types: Types = lambda _: ()
        self._lost_since: Callable[[], datetime | None] = lambda: None
        self._loads: Callable[[], Iterable[Load]] = tuple
        self._one_at_a_time = asyncio.Lock()

    def show(
        self,
        mirror: Mirror,
        types: Types,
        *,
        lost_since: Callable[[], datetime | None] = lambda: None,
    ) -> None:
        """Tell of a cluster from now on, and with what NodePools could buy, what it costs.

        ``lost_since`` says since when the cluster could not be followed, if that is so.
        """
        self._mirror = mirror
        self._types = types
        self._lost_since = lost_since

    def follow(self, loads: Callable[[], Iterable[Load]]) -> None:
        """Tell how much controllers have to do from now on."""
        self._loads = loads

    async def text(self) -> bytes:
        async with self._one_at_a_time:
            for name, waiting, working in self._loads():
                self._metrics.gauge("workqueue_depth", waiting, name=name)
                self._metrics.gauge("controller_runtime_active_workers", working, controller=name)
            sight = None
            if self._mirror is not None:
                sight = look(
                    self._mirror, self._clock.now(), self._types, lost_since=self._lost_since()
                )
                self._metrics.keep_only("nodepool", {one.name for one in sight.pools})
            own = await asyncio.to_thread(self._metrics.text)
            if sight is None:
                return own
            return own + await asyncio.to_thread(written, sight, each_node=self._each_node)
