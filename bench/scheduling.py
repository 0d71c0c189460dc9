"""Measure scheduling: speed, validity, and distance from the lower bound.

One JSON line per case. ``python -m bench.scheduling`` runs all cases.
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

from bench.bound import Bound, lower_bound
from bench.fleet_demand import reduce_snapshot
from bench.memory import peak_kib
from bench.mixes import MIXES, SEED
from dovetail.core.scheduling.solver import solve
from dovetail.host.gc import reduce_collections
from dovetail.model.plan import Plan
from dovetail.model.snapshot import ClusterSnapshot

SIZES = (1_000, 5_000, 20_000, 100_000)
CASES = [
    *(("upstream", pods) for pods in SIZES),
    *(("deployments", pods) for pods in (500, *SIZES)),
    *(("rules", pods) for pods in (300, 2_000, 5_000, 100_000)),
    *(("limits", pods) for pods in (1_000, 20_000)),
]
RUNS = 3
MAX_BOUND_CLASSES = 500
ROUNDS = 0
"""Rounds of the configuration bound. The fluid bound is nearly as high, and quick."""


def main(arguments: list[str] | None = None) -> int:
    """Run the selected cases; exit code 1 if a plan is not valid."""
    parser = argparse.ArgumentParser(prog="python -m bench.scheduling", description=__doc__)
    parser.add_argument("--mix", choices=sorted(MIXES), help="only this mix")
    parser.add_argument("--pods", type=int, help="only this many pods")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--all", action="store_true", help="all cases (the default)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of the configuration bound")
    parser.add_argument("--profile", action="store_true", help="profile the solver")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    reduce_collections()  # As every command of ``dovetail`` does.
    cases = _cases(options.mix, options.pods)
    if options.profile:
        for mix, pods in cases:
            _profile(mix, pods, options.seed)
        return 0
    invalid = 0
    for mix, pods in cases:
        if options.measure:
            line = _measure_case(mix, pods, options.seed)
        else:
            line = _run_case(mix, pods, options.seed, options.rounds)
            invalid += line["invalid"]
        print(json.dumps(line), flush=True)
    return 1 if invalid else 0


def _cases(mix: str | None, pods: int | None) -> list[tuple[str, int]]:
    if pods is not None:
        return [(name, pods) for name in sorted(MIXES) if mix in (None, name)]
    return [case for case in CASES if mix in (None, case[0])]


def _run_case(mix: str, pods: int, seed: int, rounds: int) -> dict[str, Any]:
    """Measure in a separate process, then check the plan in this one."""
    # Checker and bound would add to the peak memory of the solver.
    command = [sys.executable, "-m", "bench.scheduling", "--measure", "--mix", mix]
    command += ["--pods", str(pods), "--seed", str(seed)]
    completed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    measurement: dict[str, Any] = json.loads(completed.stdout)
    snapshot = MIXES[mix](pods, seed)
    plan = solve(snapshot)
    bound = _bound(snapshot, rounds)
    return {
        **measurement,
        "invalid": _count_invalid_pods(snapshot, plan),
        "unplaced": len(plan.unschedulable),
        "cost_over_bound": None if bound is None else round(plan.price / bound.price, 4),
        "bound": None if bound is None else bound.kind,
    }


def _bound(snapshot: ClusterSnapshot, rounds: int) -> Bound | None:
    """Return a lower bound of the price; None if it would say little, or take minutes."""
    if any(pool.limits for pool in snapshot.nodepools):
        return None  # It does not know limits.
    demand = reduce_snapshot(snapshot)
    return lower_bound(demand, rounds) if len(demand.counts) <= MAX_BOUND_CLASSES else None


def _measure_case(mix: str, pods: int, seed: int) -> dict[str, Any]:
    """Solve a few times, from decoded pods to the plan; return the best times."""
    snapshot = MIXES[mix](pods, seed)
    gc.collect()
    seconds, cpu_seconds = [], []
    for _ in range(RUNS):
        started, started_cpu = time.perf_counter(), time.process_time()
        plan = solve(snapshot)
        seconds.append(time.perf_counter() - started)
        cpu_seconds.append(time.process_time() - started_cpu)
    best = min(seconds)
    types = sum(len(types) for types in snapshot.instance_types.values())
    return {
        "mix": mix,
        "pods": pods,
        "types": types,
        "seconds": round(best, 4),
        "cpu_seconds": round(min(cpu_seconds), 4),
        "pods_per_second": round(pods / best),
        "nodes": len(plan.nodes),
        "price_per_hour": round(plan.price, 4),
        "peak_mib": round(peak_kib() / 1024),
    }


def _count_invalid_pods(snapshot: ClusterSnapshot, plan: Plan) -> int:
    """Return how many pods violate a constraint, by the checker."""
    from tests.support.scheduling.checker.plan_checker import check  # Not part of the measurement.

    return len({violation.about for violation in check(snapshot, plan)})


def _profile(mix: str, pods: int, seed: int) -> None:
    snapshot = MIXES[mix](pods, seed)
    profiler = cProfile.Profile()
    profiler.runcall(solve, snapshot)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    raise SystemExit(main())
