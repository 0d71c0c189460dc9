"""Reports of previews, for tests of what is made of them."""

from datetime import UTC, datetime
from typing import Any

from dovetail.preview.comparison import compare_states
from dovetail.preview.report import HOURS_PER_MONTH, ClusterState, Course, Preview, Sample


def a_state(*, nodes: int = 10, price: float = 1.0, **more: Any) -> ClusterState:
    return ClusterState(
        **{
            "nodes": nodes,
            "price_per_hour": price,
            "price_per_month": price * HOURS_PER_MONTH,
            "pods": 40,
            "pods_without_node": 0,
            "cpu_utilization": 0.8,
            "memory_utilization": 0.6,
            **more,
        }
    )


def a_course(*, evictions: int = 0, duration: float = 0.0, **more: Any) -> Course:
    return Course(
        **{
            "duration": duration,
            "at_rest": True,
            "launched": 0,
            "terminated": 0,
            "reasons": {},
            "evictions": evictions,
            "killed": 0,
            "peak_nodes": 10,
            "peak_price_per_hour": 1.0,
            "surge_cost": 0.0,
            "samples": (Sample(0.0, 10, 1.0, 0),),
            **more,
        }
    )


def a_preview(
    *,
    without: ClusterState | None = None,
    after: ClusterState | None = None,
    evictions: int = 0,
    evictions_without: int = 0,
    duration: float = 0.0,
    at_rest: bool = True,
    peak_nodes: int = 10,
    **more: Any,
) -> Preview:
    without, after = without or a_state(), after or a_state()
    return Preview(
        **{
            "changes": ("NodePool default: spec.weight none → 10",),
            "unchanged": (),
            "started": datetime(2026, 11, 2, 9, 0, tzinfo=UTC),
            "played_seconds": duration + 600,
            "limit_seconds": 86_400.0,
            "before": without,
            "without": without,
            "after": after,
            "difference": compare_states(after, without),
            "course": a_course(
                evictions=evictions, duration=duration, at_rest=at_rest, peak_nodes=peak_nodes
            ),
            "course_without": a_course(evictions=evictions_without),
            "waves": (),
            "workloads": (),
            "most_moved": None,
            "kept_nodes": (),
            "pods_without_node": (),
            "notes": (),
            "assumptions": (),
            "latencies": (),
            "seed": 1,
            "prices": "",
            **more,
        }
    )
