"""Measure ``dovetail top`` with a large cluster: first paint, delay of keys.

One JSON line. First paint: from a filled cluster cache to the node list, with the
build of the document. Keys are pressed from then on, while documents are published
every second and a thread evaluates why nodes are kept. ``cpu``: CPU time of all threads
from the key to its effect, which the load of the host does not change. ``python -m bench.top``.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, NamedTuple

from rich.console import RenderableType
from textual import events
from textual.screen import Screen
from textual.widgets import Input, Static

from bench.recorded_cluster import record_cluster
from dovetail.cli.top.app import TopApp
from dovetail.cli.top.row_table import RowTable
from dovetail.core.cost.node_prices import NodePrices
from dovetail.core.instancetypes.settings import InstanceTypeSettings
from dovetail.dashboard.sources.producer import Pricing, ViewProducer
from dovetail.dashboard.sources.source import ViewUpdate
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.host.clock import SystemClock
from dovetail.host.gc import reduce_collections
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.instancetypes.provider import InstanceTypeProvider
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings
from dovetail.view.prices import find_by_labels

_REGION: Final = "us-east-1"
_LIMITS: Final = {"first_paint_cpu_seconds": 2.0, "key_cpu_max_ms": 100.0}
_KEYS: Final = ("down", "pagedown", "end", "home", "s", "r", "enter", "escape", "p", "escape")
_FILTER: Final = ("slash", *"name=n19", "space", *"pods>3", "enter", "escape")
_NO_EFFECT_SECONDS: Final = 1.0


class Delay(NamedTuple):
    """Seconds from a key to its effect: of the clock, and of all threads' CPU time."""

    wall: float
    cpu: float


def create_pricing(cache: ClusterCache) -> Pricing:
    """Return instance types with list prices, as ``dovetail top`` has them."""
    catalog, now = bundled_catalog(), SystemClock().now()
    provider = InstanceTypeProvider(
        catalog.instance_types_in(_REGION),
        region=catalog.regions[_REGION],
        prices=bundled_prices(),
        unavailable=UnavailableOfferings(),
        settings=InstanceTypeSettings(kubelet_expressions=True),
    )

    def get_instance_types(pool: NodePool) -> tuple[InstanceType, ...]:
        node_class = cache.node_class(pool.template.node_class.name)
        return () if node_class is None else provider.instance_types(node_class, now=now)

    prices = NodePrices(catalog, bundled_prices(), _REGION)
    return Pricing(get_instance_types=get_instance_types, find_price=find_by_labels(prices))


class CacheSource:
    """Documents of a cluster cache that changes every second, as those of a live cluster."""

    def __init__(self, cache: ClusterCache, pricing: Pricing) -> None:
        self._views = ViewProducer(cache, pricing, source="live", name="bench")
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        clock = SystemClock()
        await self._views.publish(clock.now())
        run = self._views.run(clock.now, timedelta(seconds=1))
        self._tasks = [asyncio.create_task(run), asyncio.create_task(self._change())]

    async def _change(self) -> None:
        while True:
            await asyncio.sleep(1)
            self._views.touch()

    def current(self) -> ViewUpdate:
        return self._views.publisher.current()

    def updates(self) -> AsyncIterator[ViewUpdate]:
        return self._views.publisher.updates()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._views.close()


class MeasuredApp(TopApp):
    """Application that reports each frame."""

    painted: asyncio.Event

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        super()._display(screen, renderable)
        self.painted.set()

    def state(self) -> tuple[Any, ...]:
        """Return what a key changes: the screen, the row, the focus, the filter and the order."""
        screen = self.screen
        tables = list(screen.query(RowTable))
        inputs = [each.value for each in screen.query(Input)]
        keys = [str(each.content) for each in screen.query("#keys").results(Static)]
        return id(screen), [each.selected_key for each in tables], id(screen.focused), inputs, keys

    async def time_key(self, key: str) -> Delay | None:
        """Return the delay from a key to the frame that shows its effect; None if it has none."""
        before, started, cpu = self.state(), time.perf_counter(), time.process_time()
        self.post_message(events.Key(key, {"space": " "}.get(key, key if len(key) == 1 else None)))
        while time.perf_counter() - started < _NO_EFFECT_SECONDS:
            self.painted.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.painted.wait(), 0.25)
            if self.state() != before:
                return Delay(time.perf_counter() - started, time.process_time() - cpu)
        return None


async def measure(cache: ClusterCache, *, size: tuple[int, int], rounds: int) -> dict[str, Any]:
    """Return seconds until the first paint and milliseconds of keys."""
    pricing = create_pricing(cache)
    began = cpu_began = 0.0

    async def open_source() -> CacheSource:
        nonlocal began, cpu_began
        began, cpu_began = time.perf_counter(), time.process_time()
        return CacheSource(cache, pricing)

    app = MeasuredApp(open_source)
    app.painted = asyncio.Event()
    async with app.run_test(size=size) as pilot:
        while app.update is None or app.screen.query_one(RowTable).selected_key is None:
            await asyncio.sleep(0.005)
        await pilot.pause()
        first_paint, cpu_first_paint = time.perf_counter() - began, time.process_time() - cpu_began
        delays: dict[str, list[Delay]] = {}
        for _ in range(rounds):
            for key in (*_KEYS, *_FILTER):
                delay = await app.time_key(key)
                if delay is not None:
                    delays.setdefault(key if len(key) > 1 else "letter", []).append(delay)
                await pilot.pause()
    if app.failure is not None:
        raise app.failure
    samples = sorted(delay.wall for values in delays.values() for delay in values)
    cpu_samples = sorted(delay.cpu for values in delays.values() for delay in values)
    return {
        "first_paint_seconds": round(first_paint, 3),
        "first_paint_cpu_seconds": round(cpu_first_paint, 3),
        "keys": len(samples),
        "key_cpu_median_ms": round(statistics.median(cpu_samples) * 1000, 1),
        "key_cpu_max_ms": round(cpu_samples[-1] * 1000, 1),
        "key_median_ms": round(statistics.median(samples) * 1000, 1),
        "key_p95_ms": round(samples[int(len(samples) * 0.95)] * 1000, 1),
        "key_max_ms": round(samples[-1] * 1000, 1),
        "by_key_median_ms": {
            key: round(statistics.median(each.wall for each in values) * 1000, 1)
            for key, values in sorted(delays.items())
        },
    }


def main() -> None:
    """Print the measurement; exit with 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a limit is exceeded")
    options = parser.parse_args()
    # As the command line does.
    reduce_collections()
    objects, _ = record_cluster(
        nodes=options.nodes, pods=options.pods, seed=1, policy="WhenEmptyOrUnderutilized"
    )
    cache = ClusterCache.from_raw(objects)
    del objects
    cpu = time.process_time()
    measured = asyncio.run(measure(cache, size=(80, 24), rounds=options.rounds))
    measured["cpu_seconds"] = round(time.process_time() - cpu, 1)
    print(json.dumps({"nodes": len(cache.nodes()), "pods": options.pods, **measured}))
    if options.check and any(measured[name] > limit for name, limit in _LIMITS.items()):
        sys.exit(1)


if __name__ == "__main__":
    main()
