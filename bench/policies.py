"""Compare consolidation policies: cost and evictions of a day, replayed.

One JSON line per trace and policy. ``python -m bench.policies`` plays all of them;
``--table`` prints the lines of a file, or of stdin, as a Markdown table.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable
from typing import Any

from bench.demand import TRACES, build_trace
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model.settings import ConsolidationSettings, ControllerSettings, Packing, SchedulingSettings
from dovetail.policies.process import open_policy
from dovetail.replay.play import ReplayOptions, replay_trace

REFERENCE = "karpenter"
FEWEST = "karpenter, its packing"
"""Nodes for new pods are chosen as in Karpenter, too: the fewest, not the cheapest."""
POLICIES = (REFERENCE, FEWEST, "dovetail", "payback", "quiet-hours")
SEED = 1


def main(arguments: list[str] | None = None) -> int:
    """Play the selected traces under the selected policies."""
    parser = argparse.ArgumentParser(prog="python -m bench.policies", description=__doc__)
    parser.add_argument("--trace", choices=TRACES, action="append", help="all by default")
    parser.add_argument("--policy", action="append", help="all by default")
    parser.add_argument("--min-saving-per-pod", type=float, help="USD per hour")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--table", action="store_true", help="print JSON lines of stdin as a table")
    options = parser.parse_args(arguments)
    if options.table:
        print(_format_table(json.loads(line) for line in sys.stdin))
        return 0
    for trace in options.trace or TRACES:
        for policy in options.policy or POLICIES:
            row = _play(trace, policy, options.seed, options.min_saving_per_pod)
            print(json.dumps(row), flush=True)
    return 0


def _play(trace: str, policy: str, seed: int, min_saving_per_pod: float | None) -> dict[str, Any]:
    scheduling = SchedulingSettings(packing=Packing.FEWEST) if policy == FEWEST else SchedulingSettings()
    consolidation = ConsolidationSettings()
    if min_saving_per_pod is not None:
        consolidation = ConsolidationSettings(min_saving_per_pod=min_saving_per_pod)
    started = time.process_time()
    with open_policy(REFERENCE if policy == FEWEST else policy) as opened:
        replay = replay_trace(
            build_trace(trace, seed),
            ReplayOptions(
                catalog=bundled_catalog(),
                prices=bundled_prices(),
                settings=ControllerSettings(scheduling=scheduling, consolidation=consolidation),
                policy=opened,
                seed=seed,
            ),
        )
    return {
        "trace": trace,
        "policy": policy,
        "cost": round(replay.cost, 2),
        "evictions": replay.evictions_by_reason.get("Underutilized", 0),
        "all_evictions": replay.evictions,
        "launched": replay.launched,
        "average_nodes": round(replay.average_nodes, 1),
        "wait_p95": replay.waiting.p95,
        "pods": replay.waiting.pods,
        "unschedulable": replay.unschedulable,
        "cpu_seconds": round(time.process_time() - started, 1),
    }


def _format_table(rows: Iterable[dict[str, Any]]) -> str:
    lines = [
        "| trace | policy | USD | relative | evictions | relative | launches | nodes | wait p95, s |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    reference: dict[str, dict[str, Any]] = {}
    for row in rows:
        first = reference.setdefault(row["trace"], row)
        cost, evictions = row["cost"] / first["cost"], row["all_evictions"] / max(1, first["all_evictions"])
        lines.append(
            f"| {row['trace']} | {row['policy']} | {row['cost']:.2f} | {cost:.1%} | {row['all_evictions']:,} "
            f"| {evictions:.0%} | {row['launched']:,} | {row['average_nodes']} | {row['wait_p95']:.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
