"""Measure consolidation: how fast a pass is, and how cheap the cluster is in the end.

One JSON line a case. ``python -m bench.consolidation`` runs all cases.
"""

import argparse
import cProfile
import gc
import json
import pstats
import subprocess
import sys
import time
from typing import Any

from bench.bound import lower_bound
from bench.memory import peak_kib
from bench.thinned import PODS_PER_NODE, ThinnedCluster
from bench.work import work_of
from dovetail.core.disruption.consolidation.consolidate import consolidate

KEEP = 0.4
CASES = [(200, None, 42), (200, None, 7), (200, None, 1), (1_000, 20_000, 42), (5_000, 100_000, 42)]
"""Nodes, pods that are left (None: as many as were meant for such a fleet), seed."""
WHOLE = 500
"""Up to so many nodes passes are repeated to the end; of larger clusters one is measured."""
BUDGET = 0.1
MOST_PASSES = 200


def main(arguments: list[str] | None = None) -> int:
    """Run the cases that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.consolidation", description=__doc__)
    parser.add_argument("--nodes", type=int, help="about so many; all cases unless given")
    parser.add_argument("--pods", type=int, help="that are left")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--keep", type=float, default=KEEP, help="share of pods that are left")
    parser.add_argument("--spread", action="store_true", help="half of the pods, over zones")
    parser.add_argument("--to-the-end", action="store_true", help="all passes, however many nodes")
    parser.add_argument(
        "--profile", action="store_true", help="where the first pass spends its time"
    )
    chosen = parser.parse_args(arguments)
    if chosen.nodes is None:
        failed = 0
        for nodes, pods, seed in CASES:
            # In a process of its own, so that its peak of memory is its own, too.
            command = [sys.executable, "-m", "bench.consolidation", "--nodes", str(nodes)]
            command += ["--seed", str(seed)] + (["--pods", str(pods)] if pods else [])
            failed |= subprocess.run(command, check=False).returncode  # noqa: S603
        return failed
    pods = chosen.pods or round(chosen.nodes * PODS_PER_NODE * chosen.keep)
    cluster = ThinnedCluster(chosen.nodes, pods, chosen.keep, chosen.seed, spread=chosen.spread)
    if chosen.profile:
        _profile(cluster)
        return 0
    to_the_end = chosen.to_the_end or chosen.nodes <= WHOLE
    print(json.dumps(_case(cluster, chosen.seed, to_the_end=to_the_end)), flush=True)
    return 0


def _case(cluster: ThinnedCluster, seed: int, *, to_the_end: bool) -> dict[str, Any]:
    nodes, pods, before = len(cluster.nodes), len(cluster.pods), cluster.price
    seconds: list[float] = []
    cpu_seconds: list[float] = []
    evictions = moves = 0
    again = 0.0
    while len(seconds) < MOST_PASSES:
        room = {"default": max(1, -int(-len(cluster.nodes) * BUDGET // 1))}
        view = cluster.view()
        gc.collect()
        began, began_cpu = time.perf_counter(), time.process_time()
        found = consolidate(view, room)
        seconds.append(time.perf_counter() - began)
        cpu_seconds.append(time.process_time() - began_cpu)
        if len(seconds) == 1:
            # What a node is, is known from here on; a process looks again and again.
            began_cpu = time.process_time()
            consolidate(view, room)
            again = time.process_time() - began_cpu
        for move in found.moves:
            cluster.make(move)
            evictions += move.evictions
        moves += len(found.moves)
        if not to_the_end or not found.moves:
            break
    peak = peak_kib()
    bound = lower_bound(work_of(cluster.afresh()), 0)
    return {
        "nodes": nodes,
        "pods": pods,
        "seed": seed,
        "seconds": round(seconds[0], 3),
        "cpu_seconds": round(cpu_seconds[0], 3),
        "again_cpu_seconds": round(again, 3),
        "passes": len(seconds),
        "all_seconds": round(sum(seconds), 3),
        "most_cpu_seconds": round(max(cpu_seconds), 3),
        "peak_mib": round(peak / 1024),
        "price_before": round(before, 4),
        "price_after": round(cluster.price, 4),
        "bound": round(bound.price, 4),
        "cost_over_bound": round(cluster.price / bound.price, 4),
        "evictions": evictions,
        "moves": moves,
        "nodes_after": len(cluster.nodes),
    }


def _profile(cluster: ThinnedCluster) -> None:
    view = cluster.view()
    profiler = cProfile.Profile()
    profiler.runcall(consolidate, view, {"default": len(cluster.nodes) // 10})
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    raise SystemExit(main())
