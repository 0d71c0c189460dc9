"""Measure the cluster in a box: an hour in the life of a large cluster that is at rest.

One JSON line a case. ``python -m bench.steady`` runs all cases.
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
from bench.town import Town
from dovetail.host.gc import collect_rarely

CASES = [(200, 5_000), (2_000, 50_000)]
"""Nodes and pods."""
MINUTES = 60
SEED = 42


def main(arguments: list[str] | None = None) -> int:
    """Run the cases that were asked for; exit code 1 when an invariant broke."""
    parser = argparse.ArgumentParser(prog="python -m bench.steady", description=__doc__)
    parser.add_argument("--nodes", type=int, help="about so many; all cases unless given")
    parser.add_argument("--pods", type=int, help="25 a node unless given")
    parser.add_argument("--minutes", type=int, default=MINUTES, help="of virtual time")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument(
        "--policy", default="WhenEmpty", help="consolidationPolicy, e.g. WhenEmptyOrUnderutilized"
    )
    parser.add_argument("--profile", action="store_true", help="where the time goes")
    chosen = parser.parse_args(arguments)
    if chosen.nodes is not None:
        pods = chosen.pods or 25 * chosen.nodes
        town = Town(nodes=chosen.nodes, pods=pods, seed=chosen.seed, policy=chosen.policy)
        return _case(town, timedelta(minutes=chosen.minutes), profile=chosen.profile)
    failed = 0
    for nodes, pods in CASES:
        # In a process of its own, so that its peak of memory is its own, too.
        command = [sys.executable, "-m", "bench.steady", "--nodes", str(nodes)]
        command += ["--pods", str(pods), "--minutes", str(chosen.minutes)]
        command += ["--seed", str(chosen.seed), "--policy", chosen.policy]
        command += ["--profile"] * chosen.profile
        failed |= subprocess.run(command, check=False).returncode  # noqa: S603
    return failed


def _case(town: Town, hour: timedelta, *, profile: bool) -> int:
    collect_rarely()  # As every command does.
    gc.collect()
    build_seconds, build_cpu_seconds = _timed(town.build, "building", profile=profile)
    built_in, build_mib = town.elapsed(), peak_kib() / 1024
    before = town.counts()
    wall_seconds, cpu_seconds = _timed(lambda: town.live(hour), "the hour", profile=profile)
    happened = {name: now - before[name] for name, now in town.counts().items()}
    line: dict[str, Any] = {
        "nodes": town.nodes,
        "pods": town.pods,
        "build_seconds": round(build_seconds, 2),
        "build_cpu_seconds": round(build_cpu_seconds, 2),
        "build_virtual_seconds": round(built_in.total_seconds()),
        "build_peak_mib": round(build_mib),
        "virtual_seconds": round(hour.total_seconds()),
        "wall_seconds": round(wall_seconds, 2),
        "cpu_seconds": round(cpu_seconds, 2),
        "peak_mib": round(peak_kib() / 1024),
        **happened,
        "unsettled": town.unsettled,
        "invariant_violations": len(town.violations),
    }
    print(json.dumps(line), flush=True)
    return 1 if town.violations or town.unsettled else 0


def _timed(work: Callable[[], None], name: str, *, profile: bool) -> tuple[float, float]:
    """Return the wall and processor seconds that some work takes."""
    profiler = cProfile.Profile()
    began, began_cpu = time.perf_counter(), time.process_time()
    if profile:
        profiler.runcall(work)
    else:
        work()
    took = time.perf_counter() - began, time.process_time() - began_cpu
    if profile:
        print(f"{name}:", file=sys.stderr)
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(40)
    return took


if __name__ == "__main__":
    raise SystemExit(main())
