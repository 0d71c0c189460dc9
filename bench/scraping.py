"""Measure a scrape of a large cluster: how long it takes, and how long the loop is held.

One JSON line. ``python -m bench.scraping --nodes 2000 --pods 50000``.
"""

import argparse
import asyncio
import json
import time
from typing import Any

from dovetail.host.clock import RealClock
from dovetail.observability.exposition import Scraping
from dovetail.observability.prometheus import PrometheusMetrics
from dovetail.ports.api_resources import NODE_POOLS, NODES, PODS
from dovetail.state.cluster.cache import Mirror
from tests.observability.test_exposition import a_node, a_pod
from tests.support.boxes import a_pool

_TICK = 0.005


def a_large_cluster(nodes: int, pods: int) -> Mirror:
    """Return a mirror that has listed so many, all nodes alike."""
    mirror, pool = Mirror(), a_pool()
    pool["metadata"]["resourceVersion"] = "1"
    mirror.replace(NODE_POOLS, [pool])
    mirror.replace(NODES, [a_node(f"n{number}") for number in range(nodes)])
    bound = (a_pod(f"p{number}", f"n{number % nodes}", "100m") for number in range(pods))
    mirror.replace(PODS, bound)
    mirror.joined_nodes()
    return mirror


async def measured(mirror: Mirror) -> dict[str, Any]:
    """Scrape three times, with somebody on the loop who notes how late they are."""
    scraping = Scraping(PrometheusMetrics(), clock=RealClock())
    scraping.show(mirror, lambda _: ())
    late: list[float] = []

    async def tick() -> None:
        while True:
            due = time.perf_counter() + _TICK
            await asyncio.sleep(_TICK)
            late.append(time.perf_counter() - due)

    ticking = asyncio.ensure_future(tick())
    took, size = [], 0
    for _ in range(3):
        began = time.perf_counter()
        size = len(await scraping.text())
        took.append(time.perf_counter() - began)
    ticking.cancel()
    return {
        "bytes": size,
        "seconds": round(min(took), 3),
        "loop_held_seconds": round(max(late), 3),
    }


def main() -> None:
    """Print the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--pods", type=int, default=50_000)
    given = parser.parse_args()
    mirror = a_large_cluster(given.nodes, given.pods)
    print(json.dumps({"nodes": given.nodes, "pods": given.pods, **asyncio.run(measured(mirror))}))


if __name__ == "__main__":
    main()
