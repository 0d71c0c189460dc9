"""Output of ``explain`` as text and JSON.

Field names are stable: add, never rename.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec
from rich.text import Text

from dovetail.cli.output.console import columns
from dovetail.cli.output.plan_report import HOURS_PER_MONTH
from dovetail.codec.text.suggestions import pluralize
from dovetail.core.cost.fleet_gap import FleetGap
from dovetail.core.disruption.command import KeepReason
from dovetail.core.disruption.explain import TargetFleet
from dovetail.model import labels as label_keys
from dovetail.model.plan import UnschedulableReason
from dovetail.state.explain.blockers import BlockedSavings
from dovetail.view.document import DecisionState, DecisionView, SavingsView

_MAX_SHOWN_PODS: Final = 10


class UnpricedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is not in a sum of prices."""

    node: str
    message: str = msgspec.field(name="because")


class Nodes(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes, the most expensive first."""

    nodes: list[KeepReason]
    target: TargetFleet
    """The fleet that consolidation is heading for."""
    unpriced: list[UnpricedNode] = []
    gap: FleetGap | None = None
    """The bill of the nodes of NodePools, and its lower bound."""


class NodeExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """One node, and why it is kept."""

    stay: KeepReason
    claim: str
    nodepool: str
    labels: dict[str, str]
    pods: list[str]
    """Reschedulable pods."""
    others: int
    """Number of other pods: of DaemonSets, static and terminal ones."""
    allocatable: dict[str, str]
    free: dict[str, str]
    instance_type: str = ""
    capacity_type: str = ""
    """Empty if no label names it."""
    zone: str = ""
    unpriced: str = ""
    """Why its price is not known; empty: it is."""
    burstable: str = ""
    """Its CPU credits, if it is burstable."""


class PodExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """One pod: its node, or the node that it can get."""

    pod: str
    node: str = ""
    node_price: float = 0.0
    """USD per hour of its node; 0 if that is unknown."""
    node_share: float = 0.0
    """Larger share of the node's CPU and memory that it requests; all of it on Fargate."""
    on_fargate: bool = False
    """Its node is for this pod alone, and billed by its size."""
    waiting: bool = False
    budgets: list[str] = []
    blocking: list[str] = []
    """Those of the budgets that allow no eviction now."""
    protected: bool = False
    """Has the annotation do-not-disrupt."""
    stay: KeepReason | None = None
    """Keep reason of its node, if the pod may be the blocker."""
    claim: str = ""
    """NodeClaim that was created for it."""
    existing: str = ""
    new: str = ""
    new_nodepool: str = ""
    new_price: float = 0.0
    new_burstable: str = ""
    """CPU credits of the new node, if it is burstable."""
    new_node_cost: float = 0.0
    refusals: list[UnschedulableReason] = []
    complex: bool = False
    """Planned on its own, after all other pods, because of its constraints."""
    host_group: str = ""
    """The pods and the node with which it must share a host, if there is no room."""
    remedy: str = ""
    """Change that would give such a group a host."""


class Blockers(msgspec.Struct, frozen=True, kw_only=True):
    """All blockers, the largest saving first, and the totals of the cluster."""

    blockers: tuple[BlockedSavings, ...]
    nodes: int
    price: float
    saving: float
    """USD per hour that consolidation saves without removing a blocker, with node costs."""
    node_cost: float = 0.0
    """USD per hour of all nodes beyond their instances."""
    unmanaged: int = 0
    """Nodes of no NodePool, which are never candidates."""
    adoptable: int = 0
    """Those of them that a NodePool could replace."""
    unpriced: list[UnpricedNode] = []


class SavingsReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The savings ledger: totals, and the newest commands first; as in the live view."""

    at: datetime
    savings: SavingsView
    decisions: tuple[DecisionView, ...]


def format_nodes(explained: Nodes, prices: str) -> Iterable[Text]:
    """Yield a line per node, the total, and the target of consolidation."""
    reasons = explained.nodes
    if not reasons:
        yield Text("There are no nodes.")
        return
    unpriced = {entry.node for entry in explained.unpriced}
    rows = [
        [
            reason.node,
            "-" if reason.node in unpriced else _format_usd(reason.price),
            reason.code,
            reason.message,
        ]
        for reason in reasons
    ]
    header, *lines = columns([["NODE", "$/HOUR", "", "WHY IT STAYS"], *rows], frozenset({1}))
    yield Text(header, style="bold")
    for line, reason in zip(lines, reasons, strict=True):
        yield Text(line, style="green" if reason.code == "goes" else "")
    yield Text()
    total = sum(reason.price for reason in reasons)
    yield Text(f"{_sum_nodes(len(reasons), total, len(unpriced))}.", style="bold")
    yield from _format_unpriced(explained.unpriced)
    yield from _describe_node_cost(total, sum(reason.node_cost for reason in reasons))
    if explained.target.target_price < explained.target.price:
        yield Text(_describe_target(explained.target))
    if explained.gap is not None and explained.gap.ratio is not None:
        yield Text(_describe_gap(explained.gap))
    yield _format_source(prices)


def _sum_nodes(nodes: int, price: float, unpriced: int) -> str:
    """Return the sum of all prices, and the number of nodes that it lacks."""
    if 0 < nodes == unpriced:
        return f"{pluralize(nodes, 'node')}; no price of a node is known"
    verb = "is" if unpriced == 1 else "are"
    uncounted = f"; {unpriced:,} without a price {verb} not counted" if unpriced else ""
    return f"{pluralize(nodes, 'node')}, {_per_hour(price)}{uncounted}"


def _format_unpriced(unpriced: list[UnpricedNode]) -> Iterable[Text]:
    for entry in unpriced[:_MAX_SHOWN_PODS]:
        yield Text(f"  {entry.node} has no price: {entry.message}")
    if len(unpriced) > _MAX_SHOWN_PODS:
        yield Text(f"  and {len(unpriced) - _MAX_SHOWN_PODS:,} more")


def _describe_gap(gap: FleetGap) -> str:
    return (
        f"{'The node' if gap.nodes == 1 else f'The {gap.nodes:,} nodes'} of NodePools "
        f"{'costs' if gap.nodes == 1 else 'cost'} {gap.ratio:.2f} × the lower bound for their pods, "
        f"{gap.bound.price:,.2f} USD/h ({gap.bound.kind} relaxation): no fleet is cheaper."
    )


def _describe_node_cost(price: float, node_cost: float) -> Iterable[Text]:
    """Yield what nodes cost beyond their instances, and the sum."""
    if node_cost:
        yield Text(f"Node costs are ${node_cost:,.4f} per hour; in all {_per_hour(price + node_cost)}.")


def _describe_target(target: TargetFleet) -> str:
    return (
        f"{target.nodes:,} of them, {target.price:,.2f} USD/h, may be replaced: "
        f"could be {pluralize(target.target_nodes, 'node')} for {target.target_price:,.2f} USD/h"
        + (
            f" (with node costs {target.price + target.node_cost:,.2f} and "
            f"{target.target_price + target.target_node_cost:,.2f})."
            if target.node_cost
            else "."
        )
    )


def format_node(node: NodeExplanation, prices: str) -> Iterable[Text]:
    """Yield the lines about one node."""
    reason = node.stay
    yield Text(f"Node {reason.node} {_verb(reason)}: {reason.message}.", style="bold")
    if reason.blocker is not None:
        yield Text(f"Blocker: {reason.blocker}")
    yield Text(
        f"Its price is not known: {node.unpriced}."
        if node.unpriced
        else f"It costs {_per_hour(reason.price)}."
    )
    if node.burstable:
        yield Text(f"It is {node.burstable}.")
    if reason.price:
        yield from _describe_node_cost(reason.price, reason.node_cost)
    if reason.saving:
        yield Text(f"Its termination saves {_per_hour(reason.saving)}.")
    names = [("NodePool", node.nodepool), ("NodeClaim", node.claim)]
    owners = ", ".join(f"{kind} {name}" for kind, name in names if name)
    offering = " ".join(filter(None, (node.instance_type, node.capacity_type, node.zone)))
    if offering or owners:
        yield Text("; ".join(filter(None, (offering, owners))))
    yield Text(
        ", ".join(
            f"{node.free.get(name, '0')} of {amount} {name} free"
            for name, amount in sorted(node.allocatable.items())
            if name in ("cpu", "memory", "pods")
        )
    )
    pods = ", ".join(node.pods[:_MAX_SHOWN_PODS])
    more = len(node.pods) - _MAX_SHOWN_PODS
    yield Text(
        f"{pluralize(len(node.pods), 'pod')} would need another node"
        + (f": {pods}" if pods else "")
        + (f" and {more} more" if more > 0 else "")
        + (f"; {node.others} would not" if node.others else "")
    )
    yield _format_source(prices)


def format_pod(pod: PodExplanation, prices: str) -> Iterable[Text]:
    """Yield the lines about one pod."""
    yield Text(f"Pod {pod.pod} {_describe_state(pod)}.", style="bold")
    yield from _describe_running(pod)
    for refusal in pod.refusals:
        nodepool = f"NodePool {refusal.nodepool}" if refusal.nodepool else "No NodePool"
        yield Text(f"  {nodepool}: {refusal.message}")
    if pod.complex:
        yield Text("Its constraints are complex: it is planned on its own, after all other pods.")
    yield from _format_host_group(pod)
    if pod.protected:
        yield Text(f"It has the annotation {label_keys.DO_NOT_DISRUPT} and is not evicted.")
    for name in pod.blocking:
        yield Text(f"PodDisruptionBudget {name} allows no eviction now.")
    allowing = [name for name in pod.budgets if name not in pod.blocking]
    if allowing:
        yield Text(f"PodDisruptionBudgets that allow its eviction: {', '.join(allowing)}")
    if pod.stay is not None:
        yield Text(f"Its node {_verb(pod.stay)}: {pod.stay.message}.")
        if pod.stay.price:
            yield Text(f"That costs {_per_hour(pod.stay.price)}.")
    if pod.new_burstable:
        yield Text(f"{pod.new} is {pod.new_burstable}.")
    if pod.new or pod.node_price:
        yield _format_source(prices)


def _format_host_group(pod: PodExplanation) -> Iterable[Text]:
    if pod.host_group:
        yield Text(f"{pod.host_group[0].upper()}{pod.host_group[1:]}.")
        yield Text(f"To resolve it: {pod.remedy}.")


def format_blockers(report: Blockers, prices: str) -> Iterable[Text]:
    """Yield a line per blocker, and the totals."""
    if report.blockers:
        rows = [
            [
                _format_usd(entry.price),
                "-" if entry.saving is None else _format_usd(entry.saving),
                str(len(entry.nodes)),
                str(entry.blocker),
                entry.message.removeprefix(f"{entry.blocker} "),
            ]
            for entry in report.blockers
        ]
        head = ["HELD $/HOUR", "COULD SAVE", "NODES", "BLOCKER", "BECAUSE"]
        header, *lines = columns([head, *rows], frozenset({0, 1, 2}))
        yield Text(header, style="bold")
        yield from (Text(line) for line in lines)
        yield Text()
    else:
        yield Text("Nothing blocks the termination of a node.")
    total = _sum_nodes(report.nodes, report.price, len(report.unpriced))
    if len(report.unpriced) < report.nodes:
        total += f"; {_per_hour(report.saving)} of it can be saved without changes"
    yield Text(f"{total}.", style="bold")
    if report.adoptable:
        yield Text(
            f"{pluralize(report.adoptable, 'node')} of no NodePool: `dovetail savings` says what a NodePool "
            "would cost instead."
        )
    yield from _format_unpriced(report.unpriced)
    yield from _describe_node_cost(report.price, report.node_cost)
    yield _format_source(prices)


def _describe_running(pod: PodExplanation) -> Iterable[Text]:
    """Yield the price share of a running pod, and the node that it could move to."""
    if not pod.node:
        return
    if not pod.node_price:
        yield Text("The price of its node is not known.")
    elif pod.on_fargate:
        yield Text(f"Fargate bills the node for this pod alone: {_per_hour(pod.node_price)}.")
    else:
        yield Text(
            f"It requests {pod.node_share:.0%} of the node (the larger share of CPU and memory): "
            f"{_per_hour(pod.node_price * pod.node_share)} of {_per_hour(pod.node_price)}."
        )
    if pod.on_fargate:
        yield Text("Without this node, it would get a new one: Fargate has a node for each pod.")
    elif pod.existing:
        yield Text(f"Without this node, it would fit on {pod.existing}.")
    elif pod.new:
        price = _per_hour(pod.new_price)
        yield Text(
            f"Without this node, it would get a new {pod.new} of NodePool {pod.new_nodepool} for {price}."
        )
    elif pod.refusals:
        yield Text("Without this node, it could get no node:")


def _describe_state(pod: PodExplanation) -> str:
    if pod.node:
        return f"is on node {pod.node}"
    if not pod.waiting:
        return "needs no node now: it is terminal or deleting, or kube-scheduler has not tried it"
    if pod.claim:
        return f"waits for the node of NodeClaim {pod.claim}, which was created for it"
    if pod.existing:
        return f"fits on {pod.existing}, and waits for kube-scheduler to bind it"
    if pod.new:
        return f"would get a new {pod.new} of NodePool {pod.new_nodepool} for {_per_hour(pod.new_price)}"
    return "can get no node"


def _verb(reason: KeepReason) -> str:
    return "goes" if reason.code == "goes" else "stays"


def _format_usd(price: float) -> str:
    return f"{price:,.4f}"


def _per_hour(price: float) -> str:
    return f"${price:,.4f} per hour (${price * HOURS_PER_MONTH:,.0f} a month)"


def _format_source(prices: str) -> Text:
    return Text(f"Prices: {prices}.", style="dim")


def format_savings(report: SavingsReport) -> Iterable[Text]:
    """Yield a line per command, and the totals by reason."""
    savings = report.savings
    if savings.since is None:
        yield Text("No disruption command has been recorded yet.")
        return
    rows = [
        [
            f"{decision.at:%m-%d %H:%M}",
            decision.reason,
            str(len(decision.nodes)),
            f"{decision.expected_per_hour or 0.0:.4f}",
            "-" if decision.realized_per_hour is None else f"{decision.realized_per_hour:.4f}",
            f"{decision.realized or 0.0:.4f}",
            _describe_saving(decision),
        ]
        for decision in report.decisions
    ]
    header = ["WHEN (UTC)", "REASON", "NODES", "EXPECTED", "NOW", "SAVED", "STATE"]
    first, *lines = columns([header, *rows], frozenset({2, 3, 4, 5}))
    yield Text(first, style="bold")
    for line, decision in zip(lines, report.decisions, strict=True):
        yield Text(line, style="red" if decision.state is DecisionState.FAILED else "")
    yield Text()
    for reason, totals in savings.by_reason.items():
        yield Text(
            f"{reason}: {pluralize(totals.decisions, 'command')}, {pluralize(totals.nodes, 'node')}; "
            f"expected ${totals.expected:,.2f}, saved ${totals.realized:,.2f}"
        )
    since = f"{savings.since:%Y-%m-%d %H:%M} UTC"
    yield Text(
        f"Saved ${savings.realized:,.2f} since {since}, expected ${savings.expected:,.2f}.", style="bold"
    )
    yield Text(f"Savings that last: {_per_hour(savings.realized_per_hour)}.")
    yield Text("EXPECTED and NOW are $ per hour, SAVED is the amount so far.", style="dim")


def _describe_saving(decision: DecisionView) -> str:
    if decision.state is not DecisionState.DONE:
        return decision.state.value
    return "lasts" if decision.until is None else f"to {decision.until:%m-%d %H:%M}"
