"""Outcomes of replays, for tests of sweeps."""

from typing import Any

from dovetail.replay.sweep.worker import Outcome


def an_outcome(cost: float, evictions: int, **more: Any) -> Outcome:
    """Return the outcome of a day with two nodes."""
    fields = {
        "killed": 0,
        "waiting_p50": 0,
        "waiting_p95": 39,
        "waiting_worst": 40,
        "unschedulable": 0,
        "launched_per_day": 12,
        "node_hours": 3,
        "peak_nodes": 2,
        **more,
    }
    return Outcome(cost=cost, evictions=evictions, **fields)
