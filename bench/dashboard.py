"""Dashboard with 2,000 nodes and 50,000 pods in Chromium; one JSON line.

First paint: from navigation to the first node on the page. Update: from the publication of
a document to the frame that shows it. Memory: of the page's process.
"""

import argparse
import asyncio
import json
import os
import statistics
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
from playwright.async_api import Browser, Page, async_playwright

from dovetail.dashboard.server import DashboardServer
from dovetail.view.document import (
    ClusterInfo,
    KeepView,
    NodePoolView,
    NodeState,
    NodeView,
    PodView,
    Totals,
    Usage,
    View,
    WorkloadView,
)
from tests.dashboard.views import FakeSource

TOKEN: Final = "a-token-for-the-benchmark"  # noqa: S105
CHROMIUM: Final = os.environ.get("CHROMIUM", "/usr/bin/chromium")
LIMITS: Final = {"first_paint_seconds": 3.0, "update_ms": 200.0, "memory_mb": 300.0}
_START: Final = datetime(2026, 1, 1, 9, tzinfo=UTC)
_TYPES: Final = ("m7g.2xlarge", "c7g.4xlarge", "r6g.xlarge", "m6a.4xlarge", "c6i.2xlarge")


def build_view(nodes: int, pods: int, random: Random) -> View:
    """Return a cluster of 60 workloads."""
    built = {}
    for index in range(nodes):
        key = f"pool-{index % 8}-{index:05}"
        count = pods // nodes + (index < pods % nodes)
        built[key] = _build_node(key, index, count, random)
    return View(
        at=_START,
        cluster=ClusterInfo(name="bench", source="live", region="us-east-1", autoscaler="dovetail"),
        totals=_sum(built),
        node_pools={f"pool-{index}": NodePoolView(name=f"pool-{index}") for index in range(8)},
        nodes=built,
    )


def _build_node(key: str, index: int, pods: int, random: Random) -> NodeView:
    names = sorted(random.sample(range(60), 5))
    workloads = []
    for position, number in enumerate(names):
        share = pods // 5 + (position < pods % 5)
        listed = tuple(
            PodView(
                name=f"workload-{number}-7d9c5b6f4-{index:05}{pod}",
                cpu=250,
                memory=512 << 20,
                created_at=_START,
            )
            for pod in range(share)
        )
        workloads.append(
            WorkloadView(
                namespace=f"team-{number % 9}",
                kind="Deployment",
                name=f"workload-{number}",
                cpu=250 * share,
                memory=(512 << 20) * share,
                pods=listed,
            )
        )
    return NodeView(
        key=key,
        name=f"ip-10-{index >> 8}-{index & 255}-10.ec2.internal",
        node_claim=key,
        node_pool=f"pool-{index % 8}",
        state=NodeState.READY,
        instance_type=_TYPES[index % len(_TYPES)],
        zone=f"us-east-1{'abc'[index % 3]}",
        capacity_type="spot" if index % 3 else "on-demand",
        price_per_hour=0.1 + index % 7 / 10,
        created_at=_START - timedelta(hours=index % 50),
        cpu=Usage(requested=250 * pods, allocatable=7910),
        memory=Usage(requested=(512 << 20) * pods, allocatable=28 << 30),
        pods=Usage(requested=pods, allocatable=58),
        workloads=tuple(workloads),
        keep=KeepView(code="not-cheaper", message="the cheapest new node for its pods costs as much"),
    )


def _sum(nodes: dict[str, NodeView]) -> Totals:
    pods = sum(node.pods.requested for node in nodes.values())
    price = sum(node.price_per_hour or 0.0 for node in nodes.values())
    return Totals(
        nodes=len(nodes),
        ready_nodes=len(nodes),
        pods=pods,
        price_per_hour=price,
        price_per_month=price * 730,
        cpu=Usage(requested=250 * pods, allocatable=7910 * len(nodes)),
        memory=Usage(requested=(512 << 20) * pods, allocatable=(28 << 30) * len(nodes)),
    )


def change(view: View, round_number: int, random: Random) -> View:
    """Return the cluster a second later: 1 % of the nodes have changed, the first one drains."""
    nodes = dict(view.nodes)
    for key in random.sample(sorted(nodes), max(1, len(nodes) // 100)):
        node = nodes[key]
        cpu = msgspec.structs.replace(node.cpu, requested=(node.cpu.requested + 250) % 7910)
        nodes[key] = msgspec.structs.replace(node, cpu=cpu, workloads=tuple(reversed(node.workloads)))
    first = min(nodes)
    nodes[first] = msgspec.structs.replace(nodes[first], name=f"round-{round_number}")
    totals = msgspec.structs.replace(_sum(nodes), pending_pods=round_number)
    return msgspec.structs.replace(view, at=view.at + timedelta(seconds=1), nodes=nodes, totals=totals)


async def measure(nodes: int, pods: int, rounds: int) -> dict[str, Any]:
    """Return the figures of one run."""
    random = Random(1)
    view = build_view(nodes, pods, random)
    source = FakeSource(view)
    await source.start()
    server = DashboardServer(source, get_token=lambda: TOKEN)
    async with server.serving() as port, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1440, "height": 900})
        began = time.perf_counter()
        await page.goto(f"http://127.0.0.1:{port}/#token={TOKEN}", wait_until="commit")
        await page.wait_for_selector(".card")
        first_paint = time.perf_counter() - began
        updates = []
        for round_number in range(1, rounds + 1):
            view = change(view, round_number, random)
            waiting = asyncio.ensure_future(_wait_for_pending(page, round_number))
            await asyncio.sleep(0.3)
            began = time.perf_counter()
            await source.publish(view)
            await waiting
            updates.append((time.perf_counter() - began) * 1000)
        memory = await _measure_memory(browser, page)
        elements = await page.evaluate("document.querySelectorAll('*').length")
        await browser.close()
    return {
        "nodes": nodes,
        "pods": pods,
        "first_paint_seconds": round(first_paint, 2),
        "update_ms": round(statistics.median(updates), 1),
        "update_max_ms": round(max(updates), 1),
        "memory_mb": round(memory, 1),
        "elements": elements,
    }


async def _wait_for_pending(page: Page, pending: int) -> None:
    await page.wait_for_function(
        "text => document.querySelector('.figure.waiting .note')?.textContent === text",
        arg=f"{pending} pending",
    )


async def _measure_memory(browser: Browser, page: Page) -> float:
    """Return the megabytes of the page's process after a garbage collection."""
    await (await page.context.new_cdp_session(page)).send("HeapProfiler.collectGarbage")
    processes = await (await browser.new_browser_cdp_session()).send("SystemInfo.getProcessInfo")
    renderers = [entry["id"] for entry in processes["processInfo"] if entry["type"] == "renderer"]
    return max(_get_pss(process) for process in renderers) / 1024


def _get_pss(process: int) -> int:
    """Return the proportional set size in KiB: shared memory counts in part."""
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def main() -> None:
    """Print the figures; exit with 1 if one is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    figures = asyncio.run(measure(arguments.nodes, arguments.pods, arguments.rounds))
    print(json.dumps(figures))
    over = {name: limit for name, limit in LIMITS.items() if figures[name] > limit}
    if over:
        raise SystemExit(f"above the limit: {over}")


if __name__ == "__main__":
    main()
