"""Compare consolidation policies: cost and evictions of a day, replayed.

One JSON line per trace and case. ``python -m bench.policies`` plays all of them;
``--table`` prints the lines of stdin as a Markdown table.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from bench.demand import GENERATED, build_trace
from bench.gaia import generate_gaia
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model.settings import ConsolidationSettings, ControllerSettings, Packing, SchedulingSettings
from dovetail.policies.process import open_policy
from dovetail.replay.play import ReplayOptions, replay_trace

SEED = 1
TRACES = {**GENERATED, "gaia": generate_gaia}
"""``gaia`` is recorded, and downloaded."""


class Case(msgspec.Struct, frozen=True):
    """A policy with settings."""

    policy: str = "dovetail"
    scheduling: SchedulingSettings = SchedulingSettings()
    consolidation: ConsolidationSettings = ConsolidationSettings()


CASES = {
    "karpenter": Case("karpenter"),
    # Nodes for new pods are chosen as in Karpenter, too: the fewest, not the cheapest.
    "karpenter, its packing": Case("karpenter", SchedulingSettings(packing=Packing.FEWEST)),
    "dovetail": Case(),
    "dovetail, share 0": Case(consolidation=ConsolidationSettings(min_saving_share=0.0)),
    "payback, share 0": Case("payback", consolidation=ConsolidationSettings(min_saving_share=0.0)),
}
"""The first is the reference of the table."""


def main(arguments: list[str] | None = None) -> int:
    """Play the selected traces in the selected cases."""
    parser = argparse.ArgumentParser(prog="python -m bench.policies", description=__doc__)
    parser.add_argument("--trace", choices=TRACES, action="append", help="all by default")
    parser.add_argument("--case", choices=CASES, action="append", help="all by default")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--table", action="store_true", help="print JSON lines of stdin as a table")
    options = parser.parse_args(arguments)
    if options.table:
        print(_format_table(json.loads(line) for line in sys.stdin))
        return 0
    for trace in options.trace or TRACES:
        for case in options.case or CASES:
            print(json.dumps(_play(trace, case, options.seed)), flush=True)
    return 0


def _play(trace: str, name: str, seed: int) -> dict[str, Any]:
    case = CASES[name]
    started = time.process_time()
    with open_policy(case.policy) as policy:
        replay = replay_trace(
            build_trace(trace, TRACES[trace], seed),
            ReplayOptions(
                catalog=bundled_catalog(),
                prices=bundled_prices(),
                settings=ControllerSettings(scheduling=case.scheduling, consolidation=case.consolidation),
                policy=policy,
                seed=seed,
            ),
        )
    return {
        "trace": trace,
        "case": name,
        "cost": round(replay.cost, 2),
        "evictions": replay.evictions,
        "launched": replay.launched,
        "average_nodes": round(replay.average_nodes, 1),
        "wait_p95": replay.waiting.p95,
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
        cost, evictions = row["cost"] / first["cost"], row["evictions"] / max(1, first["evictions"])
        lines.append(
            f"| {row['trace']} | {row['case']} | {row['cost']:.2f} | {cost:.1%} | {row['evictions']:,} "
            f"| {evictions:.0%} | {row['launched']:,} | {row['average_nodes']} | {row['wait_p95']:.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
