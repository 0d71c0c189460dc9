"""Measure a sweep on Ray: the same points as in two local processes.

The cluster is local: a head without CPUs and two nodes with one each. Its start-up is
measured apart. The overhead is one of wall time, so the host must be idle: Ray's workers are not
children of this process, and their CPU time is not counted.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.demand import GENERATED, build_trace
from bench.recorded_day import write_day
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model.settings import ControllerSettings
from dovetail.replay.play import ReplayOptions
from dovetail.replay.sweep.nodepool_keys import PoolChanges
from dovetail.replay.sweep.processes import run_in_processes
from dovetail.replay.sweep.ray_cluster import run_on_ray
from dovetail.replay.sweep.worker import Outcome, Point, SweepInput
from dovetail.trace.model import End
from dovetail.trace.writer import TraceWriter

_TICKS = os.sysconf("SC_CLK_TCK")
VALUES = ("30s", "1m", "2m", "5m", "10m", "30m", "1h", "Never")


def main(arguments: list[str] | None = None) -> int:
    """Print one JSON line."""
    parser = argparse.ArgumentParser(prog="python -m bench.sweep_overhead", description=__doc__)
    parser.add_argument("--points", type=int, default=4, choices=range(1, len(VALUES) + 1))
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument(
        "--pods", type=int, help="points with a steady day of so many pods, as in bench.replay"
    )
    options = parser.parse_args(arguments)
    # Paths of Ray's sockets are limited to 107 bytes.
    with TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        os.environ["RAY_TMPDIR"] = folder
        shared = _write_trace(Path(folder, "day.trace"), options.hours, options.pods)
        points = [_build_point(value) for value in VALUES[: options.points]]
        local, local_seconds, local_cpu = _measure(lambda: run_in_processes(shared, points, workers=2))
        started, started_cpu = time.monotonic(), _count_cpu()
        cluster = _start_cluster()
        start_seconds, start_cpu = time.monotonic() - started, _count_cpu() - started_cpu
        try:
            remote, ray_seconds, _ = _measure(lambda: run_on_ray(shared, points, address=cluster.address))
        finally:
            cluster.shutdown()
    figures = {
        "points": len(points),
        "equal": local == remote,
        "processes_seconds": local_seconds,
        "ray_seconds": ray_seconds,
        "overhead": ray_seconds / local_seconds - 1,
        "processes_cpu_seconds": local_cpu,
        "ray_start_seconds": start_seconds,
        "ray_start_cpu_seconds": start_cpu,
    }
    print(json.dumps({key: round(value, 3) for key, value in figures.items()}))
    return 0


def _write_trace(path: Path, hours: float, pods: int | None) -> SweepInput:
    if pods is not None:
        write_day(path, pods=pods, churn=0.01)
    else:
        trace = build_trace("services", GENERATED["services"], 1)
        with TraceWriter(path, trace.header) as writer:
            for event in trace.events:
                writer.write(event)
            writer.write(End(t=trace.seconds))
    options = ReplayOptions(
        catalog=bundled_catalog(), prices=bundled_prices(), limit=timedelta(hours=hours), name="day"
    )
    return SweepInput(trace=str(path), options=options)


def _build_point(value: str) -> Point:
    return Point(
        values=(("consolidateAfter", value),),
        settings=ControllerSettings(),
        pools=PoolChanges((("", "consolidateAfter", value),)),
    )


def _start_cluster() -> Any:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    return cluster


def _measure(
    run: Callable[[], Iterator[tuple[int, Outcome | str]]],
) -> tuple[dict[int, Outcome | str], float, float]:
    """Return the outcomes, seconds of wall time and seconds of CPU of all processes."""
    started, before = time.monotonic(), _count_cpu()
    outcomes = dict(run())
    return outcomes, time.monotonic() - started, _count_cpu() - before


def _count_cpu() -> float:
    """Return the CPU seconds of this process and its descendants, ended ones included."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # It has ended meanwhile.
        parents[int(entry.name)] = int(fields[1])
        seconds[int(entry.name)] = sum(map(int, fields[11:15])) / _TICKS
    total, family = 0.0, [os.getpid()]
    while family:
        process = family.pop()
        total += seconds[process]
        family += [child for child, parent in parents.items() if parent == process]
    return total


if __name__ == "__main__":
    raise SystemExit(main())
