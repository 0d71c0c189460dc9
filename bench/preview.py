"""Measure a fork: roll a new AMI under a budget of 10 % through it.

One JSON line per case: CPU seconds and memory from the objects to the last replaced node.
``python -m bench.preview`` runs all cases.
"""

import argparse
import cProfile
import gc
import json
import math
import pstats
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from bench.memory import peak_kib
from bench.recorded_cluster import record_cluster
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.host.gc import reduce_collections
from dovetail.model.karpenter.condition_types import DRIFTED
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.simulator.apiserver.conditions import is_condition_true
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.model import NewImages
from dovetail.simulator.scenario_actions import perform

CASES = [(340, 6_000, 60, 600), (2_200, 50_000, 480, 2_048)]
"""Nodes, pods, and the limits in CPU seconds and MiB.

Nodes are filled better than asked for, so that 300 and 2,000 remain.
"""
LIMIT = timedelta(hours=24)
STEP = timedelta(minutes=1)
SEED = 42


def main(arguments: list[str] | None = None) -> int:
    """Run the selected cases; exit code 1 if a roll-out does not end or exceeds a limit."""
    parser = argparse.ArgumentParser(prog="python -m bench.preview", description=__doc__)
    parser.add_argument("--nodes", type=int, help="about this number; all cases by default")
    parser.add_argument("--pods", type=int, help="by default 20 per node")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--policy", default="WhenEmptyOrUnderutilized", help="consolidationPolicy")
    parser.add_argument("--record", metavar="FILE", help="only write the dump")
    parser.add_argument("--dump", metavar="FILE", help="a dump written by --record")
    parser.add_argument("--max-seconds", type=float, default=math.inf, help="limit of CPU seconds")
    parser.add_argument("--max-mib", type=float, default=math.inf, help="limit of peak memory")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args(arguments)
    reduce_collections()  # As in every command.
    if options.dump is not None:
        return _case(Path(options.dump), options.max_seconds, options.max_mib, profile=options.profile)
    if options.record is not None:
        pods = options.pods or 20 * options.nodes
        return _record(Path(options.record), options.nodes, pods, options.seed, options.policy)
    cases: list[tuple[int, int, float, float]] = list(CASES)
    if options.nodes is not None:
        cases = [(options.nodes, options.pods or 20 * options.nodes, options.max_seconds, options.max_mib)]
    failed = 0
    with TemporaryDirectory(prefix="dovetail-preview-") as folder:
        for nodes, pods, max_seconds, max_mib in cases:
            file = str(Path(folder, f"{nodes}.json"))
            script = [sys.executable, "-m", "bench.preview"]
            record = ["--nodes", str(nodes), "--pods", str(pods), "--record", file]
            record += ["--seed", str(options.seed), "--policy", options.policy]
            # In separate processes, so that peak memory is that of the fork alone.
            subprocess.run([*script, *record], check=True)  # noqa: S603
            command = [*script, "--dump", file, *(["--profile"] * options.profile)]
            command += ["--max-seconds", str(max_seconds), "--max-mib", str(max_mib)]
            failed |= subprocess.run(command, check=False).returncode  # noqa: S603
    return failed


def _record(file: Path, nodes: int, pods: int, seed: int, policy: str) -> int:
    objects, now = record_cluster(nodes=nodes, pods=pods, seed=seed, policy=policy)
    file.write_bytes(msgspec.json.encode({"now": now, "items": objects}))
    return 0


class _Dump(msgspec.Struct):
    now: datetime
    items: list[dict[str, Any]]


def _case(file: Path, max_seconds: float, max_mib: float, *, profile: bool) -> int:
    dump = msgspec.json.decode(file.read_bytes(), type=_Dump)
    dump_mib = peak_kib() / 1024
    gc.collect()
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    started, began = time.process_time(), time.perf_counter()
    cluster = SimulatedCluster.from_snapshot(
        dump.items, now=dump.now, catalog=bundled_catalog(), prices=bundled_prices()
    )
    dump.items.clear()
    fork_seconds = time.process_time() - started
    claims = {obj["metadata"]["name"] for obj in cluster.api.list(NODE_CLAIMS).items}
    nodes = len(claims)
    perform(NewImages(), cluster)
    remaining = nodes
    while remaining and cluster.clock.now() - dump.now < LIMIT:
        cluster.clock.run(until=cluster.clock.now() + STEP)
        current = cluster.api.list(NODE_CLAIMS).items
        remaining = sum(
            obj["metadata"]["name"] in claims or is_condition_true(obj, DRIFTED) for obj in current
        )
    seconds, elapsed = time.process_time() - started, time.perf_counter() - began
    if profile:
        profiler.disable()
        stats = pstats.Stats(profiler, stream=sys.stderr)
        stats.sort_stats("tottime").print_stats(45)
        stats.sort_stats("cumulative").print_stats(70)
    report: dict[str, float] = {
        "nodes": nodes,
        "pods": cluster.fork.pods if cluster.fork is not None else 0,
        "fork_cpu_seconds": round(fork_seconds, 1),
        "cpu_seconds": round(seconds, 1),
        "wall_seconds": round(elapsed, 1),
        "peak_mib": round(peak_kib() / 1024),
        "dump_mib": round(dump_mib),
        "virtual_minutes": round((cluster.clock.now() - dump.now).total_seconds() / 60),
        "old_nodes_left": remaining,
        "nodes_after": cluster.ec2.billing.instance_count,
        "running": cluster.recorder.running,
        "unsettled": cluster.recorder.unsettled,
    }
    print(json.dumps(report), flush=True)
    return int(remaining > 0 or seconds > max_seconds or report["peak_mib"] > max_mib)


if __name__ == "__main__":
    raise SystemExit(main())
