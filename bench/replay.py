"""Measure the replay of a day: 200 nodes, 4,000 pods, 3,000 tasks.

One JSON line: CPU seconds and peak memory of one replay, and what it found.
``python -m bench.replay`` generates the day and replays it; ``--churn 0.01`` a steady one.
"""

import argparse
import cProfile
import json
import pstats
import time
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.memory import peak_kib
from bench.recorded_day import DAY, write_day
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.host.gc import reduce_collections
from dovetail.replay.play import ReplayOptions, replay_trace
from dovetail.trace.reader import load_trace


def main(arguments: list[str] | None = None) -> int:
    """Generate a day, unless a trace is named, and replay it."""
    parser = argparse.ArgumentParser(prog="python -m bench.replay", description=__doc__)
    parser.add_argument("--pods", type=int, default=4000)
    parser.add_argument("--hours", type=float, default=DAY / 3600)
    parser.add_argument("--churn", type=float, help="a steady day: share of the pods that change per hour")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", metavar="FILE", help="only write the trace")
    parser.add_argument("--trace", metavar="FILE", help="a trace to replay")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args(arguments)
    day = {"pods": options.pods, "seed": options.seed, "churn": options.churn}
    if options.write:
        write_day(Path(options.write), **day)
        return 0
    reduce_collections()  # As in every command.
    with TemporaryDirectory(prefix="dovetail-replay-") as folder:
        path = Path(options.trace or write_day(Path(folder, "day"), **day))
        return _measure(path, timedelta(hours=options.hours), options.profile)


def _measure(path: Path, limit: timedelta, profile: bool) -> int:
    catalog, prices = bundled_catalog(), bundled_prices()
    profiler = cProfile.Profile()
    before = time.process_time()
    if profile:
        profiler.enable()
    trace = load_trace(path)
    loaded = time.process_time()
    report = replay_trace(trace, ReplayOptions(catalog=catalog, prices=prices, limit=limit, name=path.name))
    profiler.disable()
    if profile:
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(60)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(40)
    print(
        json.dumps(
            {
                "trace_bytes": path.stat().st_size,
                "events": len(trace.events),
                "load_cpu_s": round(loaded - before, 2),
                "cpu_s": round(time.process_time() - before, 2),
                "peak_mib": peak_kib() // 1024,
                "hours": report.seconds / 3600,
                "average_nodes": report.average_nodes,
                "peak_nodes": report.peak_nodes,
                "launched": report.launched,
                "evictions": report.evictions,
                "reasons": report.evictions_by_reason,
                "cost": report.cost,
                "waiting": [
                    report.waiting.pods,
                    report.waiting.p50,
                    report.waiting.p95,
                    report.waiting.worst,
                ],
                "unschedulable": report.unschedulable,
                "notes": report.notes,
            }
        )
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
