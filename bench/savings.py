"""Measure ``dovetail savings`` on dumps of node groups.

One JSON line per case: CPU and wall seconds from the file to the report, and peak memory.
``python -m bench.savings`` runs all cases, each in a process of its own.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench.memory import peak_kib
from bench.node_group_cluster import node_group_cluster
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.host.gc import reduce_collections
from dovetail.operator.cluster_objects import read_dumps
from dovetail.savings.analysis import SavingsInput, analyse, find_cluster_region

CASES = [(300, 6_000, 10.0), (2_000, 50_000, 60.0)]
"""Nodes, pods, and the limit in CPU seconds."""


def main(arguments: list[str] | None = None) -> int:
    """Run the cases; exit code 1 if one takes longer than its limit."""
    parser = argparse.ArgumentParser(prog="python -m bench.savings", description=__doc__)
    parser.add_argument("--dump", help="measure this file only")
    parser.add_argument("--limit", type=float, default=60.0, help="CPU seconds")
    options = parser.parse_args(arguments)
    if options.dump is not None:
        return _measure(Path(options.dump), options.limit)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for nodes, pods, limit in CASES:
            file = Path(folder, f"{nodes}.json")
            items = node_group_cluster(nodes, pods)
            file.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}))
            command = [sys.executable, "-m", "bench.savings", "--dump", str(file), "--limit", str(limit)]
            failed |= subprocess.run(command, check=False).returncode  # noqa: S603
    return failed


def _measure(file: Path, limit: float) -> int:
    reduce_collections()  # As in every command.
    started, started_wall = time.process_time(), time.perf_counter()
    read = read_dumps([(file.name, file.read_bytes())])
    catalog = bundled_catalog()
    source = SavingsInput(
        objects=read.objects,
        now=read.recorded_at or datetime.now(UTC),
        catalog=catalog,
        prices=bundled_prices(),
        region=find_cluster_region(read.objects, catalog, None),
    )
    report = analyse(source).report
    seconds = time.process_time() - started
    line = {
        "case": "savings",
        "nodes": report.nodes,
        "pods": report.pods,
        "cpu_seconds": round(seconds, 2),
        "wall_seconds": round(time.perf_counter() - started_wall, 2),
        "limit": limit,
        "memory_mib": peak_kib() // 1024,
        "today": round(report.today, 2),
        "consolidated": round(report.consolidated, 2),
        "consolidated_nodes": report.consolidated_nodes,
        "from_scratch": round(report.from_scratch, 2),
        "bound": round(report.bound, 2),
    }
    print(json.dumps(line), flush=True)
    return int(seconds > limit)


if __name__ == "__main__":
    sys.exit(main())
