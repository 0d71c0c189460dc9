"""Measure the simulated cluster: one hour of a large cluster in steady state.

One JSON line per case. ``python -m bench.steady`` runs all cases.
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
from datetime import timedelta
from typing import Any

from bench.memory import peak_kib
from bench.steady_cluster import SteadyCluster
from dovetail.host.gc import reduce_collections

CASES = [(200, 5_000), (2_000, 50_000)]
"""Nodes and pods."""
MINUTES = 60
SEED = 42


def main(arguments: list[str] | None = None) -> int:
    """Run the selected cases; exit code 1 if an invariant is violated."""
    parser = argparse.ArgumentParser(prog="python -m bench.steady", description=__doc__)
    parser.add_argument("--nodes", type=int, help="about this number; all cases by default")
    parser.add_argument("--pods", type=int, help="by default 25 per node")
    parser.add_argument("--minutes", type=int, default=MINUTES, help="of virtual time")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument(
        "--policy", default="WhenEmpty", help="consolidationPolicy, e.g. WhenEmptyOrUnderutilized"
    )
    parser.add_argument("--profile", action="store_true", help="profile the build and the measurement")
    options = parser.parse_args(arguments)
    if options.nodes is not None:
        pods = options.pods or 25 * options.nodes
        cluster = SteadyCluster(nodes=options.nodes, pods=pods, seed=options.seed, policy=options.policy)
        return _case(cluster, timedelta(minutes=options.minutes), profile=options.profile)
    failed = 0
    for nodes, pods in CASES:
        # In a separate process, so that peak memory is that of one case.
        command = [sys.executable, "-m", "bench.steady", "--nodes", str(nodes)]
        command += ["--pods", str(pods), "--minutes", str(options.minutes)]
        command += ["--seed", str(options.seed), "--policy", options.policy]
        command += ["--profile"] * options.profile
        failed |= subprocess.run(command, check=False).returncode  # noqa: S603
    return failed


def _case(cluster: SteadyCluster, duration: timedelta, *, profile: bool) -> int:
    reduce_collections()  # As in every command.
    gc.collect()
    build_seconds, build_cpu_seconds = _timed(cluster.build, "build", profile=profile)
    build_duration, build_mib = cluster.elapsed(), peak_kib() / 1024
    before = cluster.counts()
    wall_seconds, cpu_seconds = _timed(lambda: cluster.run(duration), "steady state", profile=profile)
    changes = {name: now - before[name] for name, now in cluster.counts().items()}
    line: dict[str, Any] = {
        "nodes": cluster.nodes,
        "pods": cluster.pods,
        "build_seconds": round(build_seconds, 2),
        "build_cpu_seconds": round(build_cpu_seconds, 2),
        "build_virtual_seconds": round(build_duration.total_seconds()),
        "build_peak_mib": round(build_mib),
        "virtual_seconds": round(duration.total_seconds()),
        "wall_seconds": round(wall_seconds, 2),
        "cpu_seconds": round(cpu_seconds, 2),
        "peak_mib": round(peak_kib() / 1024),
        **changes,
        "unsettled": cluster.unsettled,
        "invariant_violations": len(cluster.violations),
    }
    print(json.dumps(line), flush=True)
    return 1 if cluster.violations or cluster.unsettled else 0


def _timed(work: Callable[[], None], name: str, *, profile: bool) -> tuple[float, float]:
    """Return the wall and CPU seconds of a function."""
    profiler = cProfile.Profile()
    started, started_cpu = time.perf_counter(), time.process_time()
    if profile:
        profiler.runcall(work)
    else:
        work()
    elapsed = time.perf_counter() - started, time.process_time() - started_cpu
    if profile:
        print(f"{name}:", file=sys.stderr)
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(40)
    return elapsed


if __name__ == "__main__":
    raise SystemExit(main())
