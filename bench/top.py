"""Measure ``dovetail top`` with a large cluster: first paint, delay of keys.

One JSON line. First paint: from a filled cluster cache to the node list, with the
build of the document. Keys are pressed while documents are published every second
and a thread evaluates why nodes are kept. ``python -m bench.top``.
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
from typing import Any, Final

from rich.console import RenderableType
from textual import events
from textual.screen import Screen
from textual.widgets import Input, Static

from bench.scraping import build_cache
from dovetail.cli.top.app import TopApp
from dovetail.cli.top.row_table import RowTable
from dovetail.dashboard.sources.producer import Pricing, ViewProducer
from dovetail.dashboard.sources.source import ViewUpdate
from dovetail.data.bundled import bundled_prices
from dovetail.host.clock import SystemClock
from dovetail.state.cluster.cache import ClusterCache
from dovetail.view.prices import find_in_book

_LIMITS: Final = {"first_paint_seconds": 2.0, "key_p95_ms": 100.0}
_KEYS: Final = ("down", "pagedown", "end", "home", "s", "r", "enter", "escape", "p", "escape")
_FILTER: Final = ("slash", *"name=n19", "space", *"pods>3", "enter", "escape")
_NO_EFFECT_SECONDS: Final = 1.0


class CacheSource:
    """Documents of a cluster cache that changes every second, as those of a live cluster."""

    def __init__(self, cache: ClusterCache) -> None:
        self._views = ViewProducer(
            cache,
            Pricing(get_instance_types=lambda _: (), find_price=find_in_book(bundled_prices(), "us-east-1")),
            source="live",
            name="bench",
        )
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

    async def time_key(self, key: str) -> float | None:
        """Return seconds from a key to the frame that shows its effect; None if it has none."""
        before, started = self.state(), time.perf_counter()
        self.post_message(events.Key(key, {"space": " "}.get(key, key if len(key) == 1 else None)))
        while time.perf_counter() - started < _NO_EFFECT_SECONDS:
            self.painted.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.painted.wait(), 0.25)
            if self.state() != before:
                return time.perf_counter() - started
        return None


async def measure(cache: ClusterCache, *, size: tuple[int, int], rounds: int) -> dict[str, Any]:
    """Return seconds until the first paint and milliseconds of keys."""
    began = 0.0

    async def open_source() -> CacheSource:
        nonlocal began
        began = time.perf_counter()
        return CacheSource(cache)

    app = MeasuredApp(open_source)
    app.painted = asyncio.Event()
    async with app.run_test(size=size) as pilot:
        while app.update is None or app.screen.query_one(RowTable).selected_key is None:
            await asyncio.sleep(0.005)
        await pilot.pause()
        first_paint = time.perf_counter() - began
        delays: dict[str, list[float]] = {}
        for _ in range(rounds):
            for key in (*_KEYS, *_FILTER):
                delay = await app.time_key(key)
                if delay is not None:
                    delays.setdefault(key if len(key) > 1 else "letter", []).append(delay)
                await pilot.pause()
    if app.failure is not None:
        raise app.failure
    samples = sorted(delay for values in delays.values() for delay in values)
    return {
        "first_paint_seconds": round(first_paint, 3),
        "keys": len(samples),
        "key_median_ms": round(statistics.median(samples) * 1000, 1),
        "key_p95_ms": round(samples[int(len(samples) * 0.95)] * 1000, 1),
        "key_max_ms": round(samples[-1] * 1000, 1),
        "by_key_median_ms": {
            key: round(statistics.median(values) * 1000, 1) for key, values in sorted(delays.items())
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
    cache = build_cache(options.nodes, options.pods)
    cpu = time.process_time()
    measured = asyncio.run(measure(cache, size=(80, 24), rounds=options.rounds))
    measured["cpu_seconds"] = round(time.process_time() - cpu, 1)
    print(json.dumps({"nodes": options.nodes, "pods": options.pods, **measured}))
    if options.check and any(measured[name] > limit for name, limit in _LIMITS.items()):
        sys.exit(1)


if __name__ == "__main__":
    main()
