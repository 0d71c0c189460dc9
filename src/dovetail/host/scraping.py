"""What a scrape is answered with: the process' own numbers, and the cluster's."""

import asyncio

from dovetail.host.clustergauges import look, written
from dovetail.host.metrics import PrometheusMetrics
from dovetail.ports.loop import Clock
from dovetail.state.mirror import Mirror


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
        self._one_at_a_time = asyncio.Lock()

    def show(self, mirror: Mirror) -> None:
        """Tell of a cluster from now on."""
        self._mirror = mirror

    async def text(self) -> bytes:
        async with self._one_at_a_time:
            sight = None
            if self._mirror is not None:
                sight = look(self._mirror, self._clock.now())
                self._metrics.keep_only("nodepool", {one.name for one in sight.pools})
            own = await asyncio.to_thread(self._metrics.text)
            if sight is None:
                return own
            return own + await asyncio.to_thread(written, sight, each_node=self._each_node)
