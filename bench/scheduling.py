"""Measure planning: how fast, how valid, how far from the cheapest fleet possible.

One JSON line a case. ``python -m bench.scheduling`` runs all cases.
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
from bench.mixes import MIXES, SEED
from bench.work import work_of
from dovetail.core.scheduling.solver import solve

SIZES = (1_000, 5_000, 20_000, 100_000)
CASES = [
    *(("upstream", pods) for pods in SIZES),
    *(("deployments", pods) for pods in (500, *SIZES)),
]
RUNS = 3
ROUNDS = 0
"""Rounds of the configuration bound; the fluid bound is nearly as high, and quick."""


def main(arguments: list[str] | None = None) -> int:
    """Run the cases that were asked for; exit code 1 when a plan is not valid."""
    parser = argparse.ArgumentParser(prog="python -m bench.scheduling", description=__doc__)
    parser.add_argument("--mix", choices=sorted(MIXES), help="only this mix")
    parser.add_argument("--pods", type=int, help="only this many pods")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--all", action="store_true", help="all cases (the default)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of the configuration bound")
    parser.add_argument("--profile", action="store_true", help="where solving spends its time")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    cases = _cases(chosen.mix, chosen.pods)
    if chosen.profile:
        for mix, pods in cases:
            _profile(mix, pods, chosen.seed)
        return 0
    invalid = 0
    for mix, pods in cases:
        if chosen.measure:
            line = _measure(mix, pods, chosen.seed)
        else:
            line = _case(mix, pods, chosen.seed, chosen.rounds)
            invalid += line["invalid"]
        print(json.dumps(line), flush=True)
    return 1 if invalid else 0


def _cases(mix: str | None, pods: int | None) -> list[tuple[str, int]]:
    if pods is not None:
        return [(one, pods) for one in sorted(MIXES) if mix in (None, one)]
    return [case for case in CASES if mix in (None, case[0])]


def _case(mix: str, pods: int, seed: int, rounds: int) -> dict[str, Any]:
    """Measure in a process of its own, then judge the plan in this one."""
    # Checker and bound would count in the peak; a fresh process has only the solver.
    command = [sys.executable, "-m", "bench.scheduling", "--measure", "--mix", mix]
    command += ["--pods", str(pods), "--seed", str(seed)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    measured: dict[str, Any] = json.loads(done.stdout)
    snapshot = MIXES[mix](pods, seed)
    plan = solve(snapshot)
    bound = lower_bound(work_of(snapshot), rounds)
    return {
        **measured,
        "invalid": _invalid(snapshot, plan),
        "unplaced": len(plan.unplaced),
        "cost_over_bound": round(plan.price / bound.price, 4),
        "bound": bound.kind,
    }


def _measure(mix: str, pods: int, seed: int) -> dict[str, Any]:
    """Solve a few times; from pods as an API server gives them to the plan."""
    snapshot = MIXES[mix](pods, seed)
    gc.collect()
    seconds, cpu_seconds = [], []
    for _ in range(RUNS):
        began, began_cpu = time.perf_counter(), time.process_time()
        plan = solve(snapshot)
        seconds.append(time.perf_counter() - began)
        cpu_seconds.append(time.process_time() - began_cpu)
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


def _invalid(snapshot: Any, plan: Any) -> int:
    """Return how many pods the checker finds in breach of a rule."""
    from tests.support.checker import check  # Not part of what is measured.

    return len({violation.about for violation in check(snapshot, plan)})


def _profile(mix: str, pods: int, seed: int) -> None:
    snapshot = MIXES[mix](pods, seed)
    profiler = cProfile.Profile()
    profiler.runcall(solve, snapshot)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    raise SystemExit(main())
