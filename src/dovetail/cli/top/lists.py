"""Lists of the view and their columns: nodes, pods, pending pods, decisions and the like."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec
from rich.text import Text

from dovetail.cli.top.format import (
    count,
    format_age,
    format_cpu,
    format_memory,
    format_price,
    format_usage,
    shorten_node,
)
from dovetail.view.document import (
    BlockerView,
    DecisionKind,
    DecisionView,
    NodeClaimView,
    NodePoolView,
    NodeState,
    NodeView,
    Notice,
    PendingPodView,
    PendingReason,
    PodView,
    View,
    WorkloadView,
)

_GAP: Final = 1
_ESSENTIAL: Final = 2
_STATE_STYLES: Final = {
    NodeState.LAUNCHING: "cyan",
    NodeState.JOINING: "cyan",
    NodeState.NOT_READY: "bold red",
    NodeState.DISRUPTED: "magenta",
    NodeState.DRAINING: "magenta",
    NodeState.TERMINATING: "magenta",
}
_PENDING: Final = {
    PendingReason.NODE_ON_ITS_WAY: "its node is being launched",
    PendingReason.FITS_EXISTING_NODE: "fits on a node; kube-scheduler has not bound it",
    PendingReason.NODE_WILL_BE_LAUNCHED: "a node will be launched",
    PendingReason.CANNOT_BE_SCHEDULED: "no node can be launched for it",
    PendingReason.NOT_PROVISIONABLE: "not marked unschedulable by kube-scheduler",
    PendingReason.UNKNOWN: "not evaluated yet",
}


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column; ``cell`` gets the item, the document and the width."""

    title: str
    cell: Callable[[Any, View, int], Text | str]
    width: int
    good: int = 0
    """Width that is worth more than columns of a rank above ``_ESSENTIAL``."""
    widest: int = 0
    """Largest useful width; 0: that of ``width``."""
    right: bool = False
    rank: int = 0
    """In a narrow terminal, columns of a high rank are left out; those of rank 0 never."""


class FittedColumn(msgspec.Struct, frozen=True):
    """A column with its width in a terminal."""

    column: Column
    width: int


def fit_columns(columns: Sequence[Column], width: int) -> list[FittedColumn]:
    """Choose the columns that fit, by rank; the rest of the width goes to those that can use it."""
    chosen = {index for index, column in enumerate(columns) if column.rank == 0}
    free = width - sum(columns[index].width + _GAP for index in chosen) + _GAP
    optional = sorted(set(range(len(columns))) - chosen, key=lambda index: columns[index].rank)
    reserved = sum(max(0, columns[index].good - columns[index].width) for index in chosen)
    for index in optional:
        needed = columns[index].width + _GAP + (reserved if columns[index].rank > _ESSENTIAL else 0)
        if needed > free:
            break
        chosen.add(index)
        free -= columns[index].width + _GAP
    widths = {index: columns[index].width for index in sorted(chosen)}
    for limit in ("good", "widest"):
        for index in widths:
            more = max(0, min(free, getattr(columns[index], limit) - widths[index]))
            widths[index] += more
            free -= more
    return [FittedColumn(columns[index], width) for index, width in widths.items()]


def render_cells(item: Any, view: View, columns: Iterable[FittedColumn]) -> Text:
    """Return one line: every cell in its width, cut with an ellipsis."""
    line = Text(no_wrap=True, end="")
    for position, fitted in enumerate(columns):
        if position:
            line.append(" " * _GAP)
        cell = fitted.column.cell(item, view, fitted.width)
        line.append_text(fit_cell(cell, fitted))
    return line


def fit_cell(cell: Text | str, fitted: FittedColumn) -> Text:
    """Return the cell in exactly the width of its column."""
    text = Text(cell) if isinstance(cell, str) else cell.copy()
    text.truncate(fitted.width, overflow="ellipsis")
    missing = max(0, fitted.width - text.cell_len)
    if fitted.column.right:
        text.pad_left(missing)
    else:
        text.pad_right(missing)
    return text


def render_titles(columns: Iterable[FittedColumn]) -> Text:
    """Return the line of titles."""
    titles = [fit_cell(fitted.column.title, fitted) for fitted in columns]
    return Text(" " * _GAP, style="bold").join(titles)


def describe_why(node: NodeView) -> Text:
    """Return the state of a node that is not ready, else why it is kept."""
    parts: list[tuple[str, str]] = []
    if node.state is not NodeState.READY:
        parts.append((_words(node.state.value), _STATE_STYLES.get(node.state, "")))
    if node.cordoned:
        parts.append(("cordoned", "yellow"))
    if node.keep is not None and (node.state is NodeState.READY or not parts):
        style = "green" if node.keep.code == "goes" else ""
        parts.append((f"{node.keep.code}: {node.keep.message}", style))
    if not parts:
        # Nodes of NodePools get their reasons after the first document, all others at no time.
        parts.append(("not evaluated yet" if node.node_pool else "of no NodePool", "dim"))
    line = Text()
    for position, (words, style) in enumerate(parts):
        line.append("; " if position else "").append(words, style)
    return line


def _words(camel: str) -> str:
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in camel)


def node_columns(view: View, *, ascii_only: bool = False) -> list[Column]:
    """Return the columns of the node list; widths follow the longest name and type."""
    names = max((len(shorten_node(node.name)) for node in view.nodes.values()), default=4)
    types = max((len(node.instance_type) for node in view.nodes.values()), default=4)
    zones = max((len(node.zone) for node in view.nodes.values()), default=4)
    pools = max((len(node.node_pool) for node in view.nodes.values()), default=4)

    def usage(node: NodeView, which: str, width: int) -> Text:
        return format_usage(getattr(node, which), width, ascii_only=ascii_only)

    return [
        Column(
            title="NODE",
            cell=lambda node, _, width: node.name if width >= len(node.name) else shorten_node(node.name),
            width=max(8, min(names, 18)),
            widest=max(8, min(names, 28)),
        ),
        Column(
            title="TYPE",
            cell=lambda node, _, __: node.instance_type or "-",
            width=max(6, min(types, 14)),
            widest=max(6, min(types, 18)),
            rank=1,
        ),
        Column(
            title="NODEPOOL",
            cell=lambda node, _, __: node.node_pool or "-",
            width=max(8, min(pools, 12)),
            widest=max(8, min(pools, 20)),
            rank=6,
        ),
        Column(title="ZONE", cell=lambda node, _, __: node.zone or "-", width=max(4, min(zones, 16)), rank=4),
        Column(title="CAPACITY", cell=lambda node, _, __: node.capacity_type or "-", width=9, rank=5),
        Column(title="CPU", cell=lambda node, _, width: usage(node, "cpu", width), width=10, widest=14),
        Column(
            title="MEMORY",
            cell=lambda node, _, width: usage(node, "memory", width),
            width=10,
            widest=14,
            rank=2,
        ),
        Column(title="PODS", cell=lambda node, _, __: str(node.pods.requested), width=4, right=True, rank=7),
        Column(
            title="AGE",
            cell=lambda node, view, __: format_age(node.created_at, view.at),
            width=4,
            right=True,
            rank=3,
        ),
        Column(
            title="$/HOUR", cell=lambda node, _, __: format_price(node.price_per_hour), width=7, right=True
        ),
        Column(
            title="WHY IT STAYS", cell=lambda node, _, __: describe_why(node), width=14, good=32, widest=300
        ),
    ]


class PodRow(msgspec.Struct, frozen=True, kw_only=True):
    """A pod on a node, or the sum of a workload's pods (``pod`` is None)."""

    key: str
    workload: WorkloadView
    pod: PodView | None = None
    open: bool = True


def pod_rows(node: NodeView, closed: frozenset[str] = frozenset()) -> list[PodRow]:
    """Return the pods of a node by workload; those of workloads in ``closed`` are left out."""
    rows = []
    for workload in node.workloads:
        key = f"{workload.kind} {workload.namespace}/{workload.name}"
        rows.append(PodRow(key=key, workload=workload, open=key not in closed))
        if key not in closed:
            rows += [
                PodRow(key=f"{workload.namespace}/{pod.name}", workload=workload, pod=pod)
                for pod in workload.pods
            ]
    return rows


def describe_pod_state(pod: PodView) -> str:
    """Return what deserves attention, or the phase."""
    states = [
        "terminating" if pod.deleting else "",
        "" if pod.ready or pod.phase != "Running" else "not ready",
        "do-not-disrupt" if pod.do_not_disrupt else "",
    ]
    return ", ".join(filter(None, states)) or pod.phase


def _pod_name(row: PodRow, _: View, __: int) -> Text:
    if row.pod is not None:
        return Text(f"   {row.pod.name}")
    marker = "-" if row.open else "+"
    of = f"{row.workload.namespace}/{row.workload.name}"
    return Text.assemble(f"{marker} ", (f"{row.workload.kind} {of}", "bold"))


POD_COLUMNS: Final = [
    Column(title="POD", cell=_pod_name, width=28, good=44, widest=70),
    Column(
        title="CPU", cell=lambda row, _, __: format_cpu((row.pod or row.workload).cpu), width=6, right=True
    ),
    Column(
        title="MEMORY",
        cell=lambda row, _, __: format_memory((row.pod or row.workload).memory),
        width=9,
        right=True,
    ),
    Column(
        title="AGE",
        cell=lambda row, view, __: format_age(row.pod.created_at, view.at) if row.pod else "",
        width=4,
        right=True,
        rank=1,
    ),
    Column(
        title="STATE",
        cell=lambda row, _, __: (
            describe_pod_state(row.pod) if row.pod else count(len(row.workload.pods), "pod")
        ),
        width=10,
        widest=40,
    ),
]


def describe_pending(pod: PendingPodView) -> str:
    """Return why a pod has no node, in a sentence."""
    words = _PENDING[pod.reason]
    if pod.reason is PendingReason.NODE_ON_ITS_WAY and pod.node_claim:
        return f"waits for NodeClaim {pod.node_claim}"
    if pod.reason is PendingReason.FITS_EXISTING_NODE and pod.node:
        return f"fits on {pod.node}; kube-scheduler has not bound it"
    if pod.reason is PendingReason.NODE_WILL_BE_LAUNCHED and pod.nearest_fit:
        return f"{words}: {pod.nearest_fit}"
    if pod.reason is PendingReason.CANNOT_BE_SCHEDULED and pod.messages:
        return pod.messages[0]
    return words


PENDING_COLUMNS: Final = [
    Column(title="POD", cell=lambda pod, _, __: pod.key, width=20, good=24, widest=44),
    Column(title="CPU", cell=lambda pod, _, __: format_cpu(pod.cpu), width=6, right=True),
    Column(title="MEMORY", cell=lambda pod, _, __: format_memory(pod.memory), width=9, right=True),
    Column(
        title="WAITS", cell=lambda pod, view, __: format_age(pod.created_at, view.at), width=5, right=True
    ),
    Column(title="WHY", cell=lambda pod, _, __: describe_pending(pod), width=20, good=60, widest=300),
]


def describe_decision(decision: DecisionView) -> str:
    """Return what was decided and about what."""
    about = ", ".join(decision.nodes or decision.node_claims)
    new = f" → {', '.join(decision.replacements)}" if decision.replacements else ""
    why = decision.message or decision.reason
    return f"{about}{new}{': ' if about and why else ''}{why}"


def _saving(decision: DecisionView) -> str:
    realized = decision.realized_per_hour
    amount = realized if realized is not None else decision.expected_per_hour
    if amount is None:
        return ""
    return f"{amount:+,.4f}" + ("" if realized is not None else "?")


_KIND_STYLES: Final = {
    DecisionKind.LAUNCHED: "cyan",
    DecisionKind.CONSOLIDATED: "green",
    DecisionKind.DRIFTED: "magenta",
    DecisionKind.INTERRUPTED: "red",
    DecisionKind.REFUSED: "dim",
}
DECISION_COLUMNS: Final = [
    Column(
        title="AGE", cell=lambda decision, view, __: format_age(decision.at, view.at), width=4, right=True
    ),
    Column(
        title="DECISION",
        cell=lambda decision, _, __: Text(decision.kind.value, _KIND_STYLES.get(decision.kind, "")),
        width=12,
    ),
    Column(title="STATE", cell=lambda decision, _, __: decision.state.value, width=7, rank=1),
    Column(title="$/HOUR", cell=lambda decision, _, __: _saving(decision), width=10, right=True),
    Column(
        title="WHAT AND WHY", cell=lambda decision, _, __: describe_decision(decision), width=20, widest=300
    ),
]


def _limits(pool: NodePoolView) -> str:
    def amount(name: str, value: int) -> str:
        return (
            format_cpu(value) if name == "cpu" else format_memory(value) if name == "memory" else str(value)
        )

    return ", ".join(
        f"{name} {amount(name, pool.usage.get(name, 0))} of {amount(name, limit)}"
        for name, limit in sorted(pool.limits.items())
    )


def _budgets(pool: NodePoolView) -> str:
    if not pool.allowed_disruptions:
        return "-"
    return ", ".join(f"{reason} {nodes}" for reason, nodes in sorted(pool.allowed_disruptions.items()))


POOL_COLUMNS: Final = [
    Column(title="NODEPOOL", cell=lambda pool, _, __: pool.name, width=16, widest=30),
    Column(title="NODES", cell=lambda pool, _, __: str(pool.nodes), width=5, right=True),
    Column(title="$/HOUR", cell=lambda pool, _, __: format_price(pool.price_per_hour), width=8, right=True),
    Column(title="WEIGHT", cell=lambda pool, _, __: str(pool.weight), width=6, right=True, rank=2),
    Column(title="CPU", cell=lambda pool, _, width: format_usage(pool.cpu, width), width=10, rank=1),
    Column(title="MEMORY", cell=lambda pool, _, width: format_usage(pool.memory, width), width=10, rank=3),
    Column(title="MAY BE DISRUPTED NOW", cell=lambda pool, _, __: _budgets(pool), width=20, widest=50),
    Column(
        title="LIMITS",
        cell=lambda pool, _, __: pool.message if not pool.ready else _limits(pool) or "none",
        width=10,
        widest=100,
    ),
]

BLOCKER_COLUMNS: Final = [
    Column(title="BLOCKER", cell=lambda each, _, __: f"{each.kind} {each.name}", width=28, widest=60),
    Column(title="NODES", cell=lambda each, _, __: str(len(each.nodes)), width=5, right=True),
    Column(title="HELD $/H", cell=lambda each, _, __: format_price(each.price_per_hour), width=8, right=True),
    Column(
        title="COULD SAVE", cell=lambda each, _, __: format_price(each.saving_per_hour), width=10, right=True
    ),
    Column(title="BECAUSE", cell=lambda each, _, __: each.message, width=16, widest=300),
]

CLAIM_COLUMNS: Final = [
    Column(title="NODECLAIM", cell=lambda claim, _, __: claim.name, width=20, widest=40),
    Column(title="TYPE", cell=lambda claim, _, __: claim.instance_type or "-", width=12, rank=1),
    Column(title="PHASE", cell=lambda claim, _, __: _words(claim.phase.value), width=14),
    Column(
        title="AGE", cell=lambda claim, view, __: format_age(claim.created_at, view.at), width=4, right=True
    ),
    Column(title="PODS", cell=lambda claim, _, __: str(claim.pods), width=4, right=True),
    Column(title="WAITS FOR", cell=lambda claim, _, __: claim.message, width=16, widest=300),
]

NOTICE_COLUMNS: Final = [
    Column(title="NOTICE", cell=lambda notice, _, __: notice.message, width=40, widest=200)
]

Item = NodeView | PodRow | PendingPodView | DecisionView | NodePoolView | BlockerView | NodeClaimView | Notice
"""An entry of one of the lists."""


def newest_first(view: View) -> list[DecisionView]:
    """Return the decisions, the newest first."""
    return sorted(view.decisions.values(), key=lambda decision: (decision.at, decision.key), reverse=True)


def longest_waiting_first(view: View) -> list[PendingPodView]:
    """Return pending pods: those without a possible node first, then the oldest."""
    return sorted(
        view.pending_pods.values(),
        key=lambda pod: (
            pod.reason is not PendingReason.CANNOT_BE_SCHEDULED,
            pod.created_at.timestamp() if pod.created_at else 0.0,
            pod.key,
        ),
    )


def most_expensive_first(view: View) -> list[BlockerView]:
    """Return the blockers, the largest saving first."""
    return sorted(
        view.blockers.values(),
        key=lambda each: (-(each.saving_per_hour or 0.0), -each.price_per_hour, each.key),
    )
