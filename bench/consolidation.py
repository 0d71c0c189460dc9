"""Measure consolidation: time per pass, and price of the final cluster.

One JSON line per case. ``python -m bench.consolidation`` runs all cases of many nodes,
``--fleet`` one of the small fleets that are compared with a plan from scratch.
"""

import argparse
import cProfile
import gc
import json
import pstats
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.bound import lower_bound
from bench.fleet_demand import reduce_snapshot
from bench.memory import peak_kib
from bench.mixes import deployments, jobs
from bench.underutilized import PODS_PER_NODE, RunningCluster, UnderutilizedCluster, spread_over_zones
from dovetail.core.disruption.consolidation.consolidate import consolidate
from dovetail.core.scheduling.solver import solve
from dovetail.model.settings import Packing
from dovetail.model.snapshot import ClusterSnapshot

KEEP = 0.4
CASES = [(200, None, 42), (200, None, 7), (200, None, 1), (1_000, 20_000, 42), (5_000, 100_000, 42)]
"""Nodes, remaining pods (None: in proportion to the nodes), seed."""


def _thinned(mix: ClusterSnapshot, seed: int) -> RunningCluster:
    cluster = RunningCluster(mix)
    cluster.delete_pods(round(len(cluster.pods) * KEEP), seed)
    return cluster


FLEETS: dict[str, Callable[[], RunningCluster]] = {
    "thinned-700": lambda: _thinned(deployments(700, 3), 3),
    "thinned-1500": lambda: _thinned(deployments(1_500, 5), 5),
    "thinned-spread": lambda: _thinned(spread_over_zones(deployments(1_000, 11)), 11),
    "fewest-nodes-jobs": lambda: RunningCluster(jobs(1_000), Packing.FEWEST),
    "fewest-nodes-deployments": lambda: RunningCluster(deployments(3_000, 5), Packing.FEWEST),
}
"""Three fleets of which 60 % of the pods were deleted; two planned for the fewest nodes."""
MAX_NODES_TO_END = 500
"""Up to this number of nodes, all passes are run; of larger clusters only the first."""
BUDGET = 0.1
MAX_PASSES = 200


def main(arguments: list[str] | None = None) -> int:
    """Run the selected cases."""
    parser = argparse.ArgumentParser(prog="python -m bench.consolidation", description=__doc__)
    parser.add_argument("--nodes", type=int, help="about this number; all cases by default")
    parser.add_argument("--fleet", choices=[*FLEETS, "all"], help="a small fleet, or all of them")
    parser.add_argument("--pods", type=int, help="remaining pods")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--keep", type=float, default=KEEP, help="share of pods that remain")
    parser.add_argument("--spread", action="store_true", help="spread half of the pods over zones")
    parser.add_argument("--to-the-end", action="store_true", help="run all passes for any number of nodes")
    parser.add_argument("--profile", action="store_true", help="profile the first pass")
    options = parser.parse_args(arguments)
    if options.fleet is not None:
        for name in FLEETS if options.fleet == "all" else (options.fleet,):
            cluster = FLEETS[name]()
            fresh = solve(cluster.pending_snapshot())
            case = _case(cluster, to_the_end=True)
            ratio = round(cluster.price / fresh.price, 4)
            row = {"fleet": name, **case, "price_from_scratch": round(fresh.price, 4), "ratio": ratio}
            print(json.dumps(row), flush=True)
        return 0
    if options.nodes is None:
        failed = 0
        for nodes, pods, seed in CASES:
            # In a separate process, so that peak memory is that of one case.
            command = [sys.executable, "-m", "bench.consolidation", "--nodes", str(nodes)]
            command += ["--seed", str(seed)] + (["--pods", str(pods)] if pods else [])
            failed |= subprocess.run(command, check=False).returncode  # noqa: S603
        return failed
    pods = options.pods or round(options.nodes * PODS_PER_NODE * options.keep)
    cluster = UnderutilizedCluster(options.nodes, pods, options.keep, options.seed, spread=options.spread)
    if options.profile:
        _profile(cluster)
        return 0
    to_the_end = options.to_the_end or options.nodes <= MAX_NODES_TO_END
    print(json.dumps({"seed": options.seed, **_case(cluster, to_the_end=to_the_end)}), flush=True)
    return 0


def _case(cluster: RunningCluster, *, to_the_end: bool) -> dict[str, Any]:
    nodes, pods, before = len(cluster.nodes), len(cluster.pods), cluster.price
    seconds: list[float] = []
    cpu_seconds: list[float] = []
    evictions = commands = 0
    repeated_cpu = 0.0
    while len(seconds) < MAX_PASSES:
        budgets = {"default": max(1, -int(-len(cluster.nodes) * BUDGET // 1))}
        context = cluster.context()
        gc.collect()
        started, started_cpu = time.perf_counter(), time.process_time()
        result = consolidate(context, budgets)
        seconds.append(time.perf_counter() - started)
        cpu_seconds.append(time.process_time() - started_cpu)
        if len(seconds) == 1:
            # Node properties are cached now; a running controller repeats passes.
            started_cpu = time.process_time()
            consolidate(context, budgets)
            repeated_cpu = time.process_time() - started_cpu
        for command in result.commands:
            cluster.execute(command)
            evictions += command.pod_count
        commands += len(result.commands)
        if not to_the_end or not result.commands:
            break
    peak = peak_kib()
    bound = lower_bound(reduce_snapshot(cluster.pending_snapshot()), 0)
    return {
        "nodes": nodes,
        "pods": pods,
        "seconds": round(seconds[0], 3),
        "cpu_seconds": round(cpu_seconds[0], 3),
        "again_cpu_seconds": round(repeated_cpu, 3),
        "passes": len(seconds),
        "all_seconds": round(sum(seconds), 3),
        "all_cpu_seconds": round(sum(cpu_seconds), 3),
        "most_cpu_seconds": round(max(cpu_seconds), 3),
        "peak_mib": round(peak / 1024),
        "price_before": round(before, 4),
        "price_after": round(cluster.price, 4),
        "bound": round(bound.price, 4),
        "cost_over_bound": round(cluster.price / bound.price, 4),
        "evictions": evictions,
        "moves": commands,
        "nodes_after": len(cluster.nodes),
    }


def _profile(cluster: RunningCluster) -> None:
    context = cluster.context()
    profiler = cProfile.Profile()
    profiler.runcall(consolidate, context, {"default": len(cluster.nodes) // 10})
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    raise SystemExit(main())
