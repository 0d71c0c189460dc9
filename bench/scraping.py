"""Measure a metrics scrape of a large cluster: duration and event loop delay.

One JSON line. ``python -m bench.scraping --nodes 2000 --pods 50000``.
"""

import argparse
import asyncio
import json
import time
from typing import Any

from dovetail.host.clock import SystemClock
from dovetail.observability.exposition import MetricsExposition
from dovetail.observability.prometheus import PrometheusMetrics
from dovetail.ports.api_resources import NODE_POOLS, NODES, PODS
from dovetail.state.cluster.cache import ClusterCache
from tests.observability.test_exposition import a_node, a_pod
from tests.support.simulator.clusters import a_pool

_TICK = 0.005


def build_cache(nodes: int, pods: int) -> ClusterCache:
    """Return a cluster cache with identical nodes and pods."""
    cache, pool = ClusterCache(), a_pool()
    pool["metadata"]["resourceVersion"] = "1"
    cache.replace(NODE_POOLS, [pool])
    cache.replace(NODES, [a_node(f"n{number}") for number in range(nodes)])
    running_pods = (a_pod(f"p{number}", f"n{number % nodes}", "100m") for number in range(pods))
    cache.replace(PODS, running_pods)
    cache.joined_nodes()
    return cache


async def measure_scrapes(cache: ClusterCache) -> dict[str, Any]:
    """Scrape three times, with a task that measures the delay of the event loop."""
    exposition = MetricsExposition(PrometheusMetrics(), clock=SystemClock())
    exposition.set_cluster(cache, lambda _: ())
    delays: list[float] = []

    async def tick() -> None:
        while True:
            due = time.perf_counter() + _TICK
            await asyncio.sleep(_TICK)
            delays.append(time.perf_counter() - due)

    ticker = asyncio.ensure_future(tick())
    durations, size = [], 0
    for _ in range(3):
        started = time.perf_counter()
        size = len(await exposition.text())
        durations.append(time.perf_counter() - started)
    ticker.cancel()
    return {"bytes": size, "seconds": round(min(durations), 3), "loop_held_seconds": round(max(delays), 3)}


def main() -> None:
    """Print the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--pods", type=int, default=50_000)
    options = parser.parse_args()
    cache = build_cache(options.nodes, options.pods)
    print(json.dumps({"nodes": options.nodes, "pods": options.pods, **asyncio.run(measure_scrapes(cache))}))


if __name__ == "__main__":
    main()
