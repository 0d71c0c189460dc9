"""Plans made by hand for the checker, and what it says of them."""

from collections.abc import Sequence

from dovetail.model.plan import Plan
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.by_hand import a_plan, planned
from tests.support.checker import check

APP = {"app": "web"}


def rules(snapshot: ClusterSnapshot, plan: Plan) -> set[str]:
    return {violation.rule for violation in check(snapshot, plan)}


def on(snapshot: ClusterSnapshot, *zones: str, types: Sequence[str] = ("small",)) -> Plan:
    """One new node per zone named, each with the next pending pod."""
    return a_plan(
        *(
            planned(snapshot, f"n{i}", [pod], zone=zone, types=types)
            for i, (pod, zone) in enumerate(zip(snapshot.pending, zones, strict=True))
        )
    )


def one_node(snapshot: ClusterSnapshot, **how: object) -> Plan:
    """All pending pods on one new node."""
    return a_plan(planned(snapshot, "n0", snapshot.pending, **how))  # type: ignore[arg-type]
