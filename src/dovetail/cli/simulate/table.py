"""The plan as a table: equal nodes and pods in one line, totals last."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from rich.text import Text

from dovetail.cli.output.console import columns
from dovetail.cli.output.plan_report import DEFAULT_JOB_HOURS, HOURS_PER_MONTH, JobHours, Totals, totals_of
from dovetail.cli.simulate.suggested_nodepools import SuggestedNodePool
from dovetail.codec.text.suggestions import join_first, pluralize
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, sum_resources
from dovetail.model.plan import ExistingPlacement, Plan, PlannedNode, UnschedulableReason

MAX_GROUPS: Final = 40
"""If there are more groups, nodes of one type form one group, whatever pods they have."""

WorkloadCounts = tuple[tuple[str, int], ...]
"""Workload and number of its pods, largest first."""

# Names in a line, or lines in a section; the others are counted.
MAX_WORKLOADS: Final = 6
MAX_ALTERNATIVES: Final = 3
MAX_EXISTING: Final = 40
MAX_EQUAL_NODES: Final = 2

_HEADER: Final = ["", "INSTANCE TYPE", "CAPACITY", "ZONE", "NODEPOOL", "CPU", "MEMORY GiB", "$/HOUR"]
_FLUSH_RIGHT: Final = frozenset({0, 5, 6, 7})
_MOVABLE: Final = (3, 4)
"""Columns that narrow terminals get in the line below: zone first, then NodePool."""
_SHOWN_IN_COLUMNS: Final = frozenset({CPU, MEMORY, PODS, EPHEMERAL_STORAGE})


def format_plan(
    plan: Plan,
    *,
    prices: str,
    suggestions: Sequence[SuggestedNodePool] = (),
    notes: Sequence[str] = (),
    job_hours: JobHours = DEFAULT_JOB_HOURS,
    width: int | None = None,
) -> list[Text]:
    """Return the lines of a plan; ``width`` is that of the terminal, None for a pipe."""
    pods = _PodFormatter(plan)
    return [
        *_new_nodes(plan, pods, width),
        *_existing_nodes(plan, pods),
        *_unschedulable(plan, pods),
        *_suggestions(suggestions),
        Text(_totals(plan), style="bold"),
        *_job_costs(plan, job_hours),
        *_node_costs(plan),
        Text(f"Prices: {prices}.", style="dim"),
        *(Text(f"Note: {note}", style="dim") for note in notes),
    ]


class _PodFormatter:
    """Formats pods by workload; leaves out a namespace that all of them share."""

    def __init__(self, plan: Plan) -> None:
        namespaces = {pod.namespace for node in plan.nodes for pod in node.pods}
        namespaces |= {pod.namespace for node in plan.existing for pod in node.pods}
        namespaces |= {unschedulable.pod.namespace for unschedulable in plan.unschedulable}
        self._prefix = f"{next(iter(namespaces))}/" if len(namespaces) == 1 else ""

    def format(self, counts: WorkloadCounts) -> str:
        names = [
            name.removeprefix(self._prefix) + (f" × {count:,}" if count > 1 else "") for name, count in counts
        ]
        if len(names) <= MAX_WORKLOADS:
            return ", ".join(names)
        rest = sum(count for _, count in counts[MAX_WORKLOADS - 1 :])
        return ", ".join(names[: MAX_WORKLOADS - 1]) + f" and {pluralize(rest, 'pod')} of others"


def _new_nodes(plan: Plan, pods: "_PodFormatter", width: int | None) -> Iterable[Text]:
    """Yield two lines per group of nodes; columns too many for the terminal are in the second."""
    if not plan.nodes:
        return
    groups = group_nodes(plan.nodes)
    table = [_HEADER, *(_row(group) for group in groups)]
    moved: list[int] = []
    while width is not None and len(moved) < len(_MOVABLE) and len(_align(table, moved)[0]) > width:
        moved.append(_MOVABLE[len(moved)])
    header, *lines = _align(table, moved)
    indent = " " * header.index(_HEADER[1])
    yield Text(header, style="bold")
    for line, row, group in zip(lines, table[1:], groups, strict=True):
        yield Text(line)
        yield Text(indent + " · ".join([*(row[at] for at in moved), _details(group, pods)]), style="dim")
    yield Text()


def _align(table: list[list[str]], left_out: list[int]) -> list[str]:
    kept = [at for at in range(len(_HEADER)) if at not in left_out]
    flush_right = frozenset(position for position, at in enumerate(kept) if at in _FLUSH_RIGHT)
    return columns([[row[at] for at in kept] for row in table], flush_right)


def _row(group: "NodeGroup") -> list[str]:
    first, count = group.first, len(group.nodes)
    requested, room = group.requested, group.allocatable
    cpu, room_cpu = (amounts.get(CPU, 0) / count / 1000 for amounts in (requested, room))
    memory, room_memory = (amounts.get(MEMORY, 0) / count / 2**30 for amounts in (requested, room))
    return [
        f"{count:,} ×",
        first.instance_type.name,
        first.offering.capacity_type,
        _zones(group.zones),
        first.nodepool,
        f"{cpu:.1f}/{room_cpu:.1f}",
        f"{memory:.1f}/{room_memory:.1f}",
        f"{group.price:,.4f}",
    ]


def _zones(counts: WorkloadCounts) -> str:
    """Return zones in short form if they are of one region: us-east-1a×2,b,c."""
    region = counts[0][0][:-1]
    is_short = all(zone[:-1] == region for zone, _ in counts)
    is_even = len({count for _, count in counts}) == 1
    names = [(zone[-1] if is_short else zone) + ("" if is_even else f"×{count:,}") for zone, count in counts]
    return (region if is_short else "") + ",".join(names)


def _details(group: "NodeGroup", pods: "_PodFormatter") -> str:
    """Return the pods of each node, special resources, and alternative types."""
    node = group.first
    if len({count_by_workload(node.pods) for node in group.nodes}) > 1:
        parts = [f"in all: {pods.format(group.pods)}"]
    else:
        each = "each: " if len(group.nodes) > 1 else ""
        parts = [each + pods.format(count_by_workload(node.pods))]
    for name in sorted(node.requested.without_zeros()):
        if name not in _SHOWN_IN_COLUMNS:
            room = node.instance_type.allocatable.get(name, 0)
            parts.append(f"{name} {node.requested[name]}/{room}")
    if group.alternatives:
        parts.append("or " + join_first(group.alternatives, MAX_ALTERNATIVES))
    return " · ".join(parts)


def _existing_nodes(plan: Plan, pods: "_PodFormatter") -> Iterable[Text]:
    if not plan.existing:
        return
    number = sum(len(node.pods) for node in plan.existing)
    yield Text(f"On existing nodes: {pluralize(number, 'pod')}", style="bold")
    groups = group_existing(plan.existing)
    shown = groups[:MAX_EXISTING]
    rows = [
        [
            f"  {join_first([node.node for node in group], MAX_EQUAL_NODES)}",
            ("each: " if len(group) > 1 else "") + pods.format(count_by_workload(group[0].pods)),
        ]
        for group in shown
    ]
    yield from (Text(line) for line in columns(rows))
    if len(groups) > len(shown):
        rest = sum(len(group) for group in groups[len(shown) :])
        yield Text(f"  … and {pluralize(rest, 'more node')}")
    yield Text()


def _unschedulable(plan: Plan, pods: "_PodFormatter") -> Iterable[Text]:
    if not plan.unschedulable:
        return
    yield Text(f"No node for {pluralize(len(plan.unschedulable), 'pod')}", style="bold red")
    for reasons, unplaced in group_unschedulable(plan).items():
        yield Text(f"  {pods.format(count_by_workload(unplaced))}", style="bold")
        rows = [
            [f"    {reason.nodepool or 'any'}", reason.constraint.value, reason.message] for reason in reasons
        ]
        yield from (Text(line) for line in (columns(rows) if rows else []))
    yield Text()


def _suggestions(suggestions: Iterable[SuggestedNodePool]) -> Iterable[Text]:
    """Yield NodePools that GPU and Windows pods need."""
    for suggestion in suggestions:
        yield Text(f"A NodePool to add for {suggestion.purpose}:", style="bold")
        # Without indentation, so that it can be pasted: an indented '---' separates no documents.
        yield from (Text(line) for line in suggestion.as_yaml().splitlines())
        yield Text()


def _totals(plan: Plan) -> str:
    totals = totals_of(plan)
    on_existing = sum(len(node.pods) for node in plan.existing)
    parts = []
    if totals.nodes:
        parts.append(
            f"{pluralize(totals.nodes, 'new node')} for {pluralize(totals.pods - on_existing, 'pod')}: "
            f"${totals.price_per_hour:,.4f} per hour" + _per_month(totals)
        )
    if on_existing:
        parts.append(f"{pluralize(on_existing, 'pod')} on existing nodes")
    if plan.unschedulable:
        parts.append(f"{pluralize(len(plan.unschedulable), 'pod')} unschedulable")
    return "; ".join(parts) or "No pod is pending"


def _per_month(totals: Totals) -> str:
    if totals.jobs is not None and totals.jobs.nodes == totals.nodes:
        return ""
    without = " without Jobs" if totals.jobs is not None else ""
    return f", ${totals.price_per_month:,.2f} per month ({HOURS_PER_MONTH} h){without}"


def _job_costs(plan: Plan, job_hours: JobHours) -> Iterable[Text]:
    """Yield what nodes cost that only run pods of Jobs."""
    jobs = totals_of(plan, job_hours).jobs
    if jobs is not None:
        yield Text(
            f"{pluralize(jobs.nodes, 'node')} for Jobs only: ${jobs.price_per_hour:,.4f} per hour, "
            f"${jobs.price_per_run:,.4f} per run of at most {jobs.hours:,g} h"
        )


def _node_costs(plan: Plan) -> Iterable[Text]:
    """Yield the total with what nodes cost beyond their instances."""
    totals = totals_of(plan)
    if not totals.node_cost_per_hour:
        return
    amounts = sorted({round(node.node_cost, 4) for node in plan.nodes})
    each = " to ".join(f"${amount:,.4f}" for amount in dict.fromkeys((amounts[0], amounts[-1])))
    yield Text(
        f"With node costs of {each} each: "
        f"${totals.cost_per_hour:,.4f} per hour"
        + (f", ${totals.cost_per_month:,.2f} per month" if totals.cost_per_month else "")
    )


class NodeGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Planned nodes of one type and offering."""

    nodes: Sequence[PlannedNode]

    @property
    def first(self) -> PlannedNode:
        return self.nodes[0]

    @property
    def price(self) -> float:
        return sum(node.price for node in self.nodes)

    @property
    def requested(self) -> Resources:
        return sum_resources(node.requested for node in self.nodes)

    @property
    def allocatable(self) -> Resources:
        return sum_resources(node.instance_type.allocatable for node in self.nodes)

    @property
    def pods(self) -> WorkloadCounts:
        return count_by_workload(pod for node in self.nodes for pod in node.pods)

    @property
    def zones(self) -> WorkloadCounts:
        """Zone and number of nodes in it, by name."""
        return tuple(sorted(Counter(node.offering.zone for node in self.nodes).items()))

    @property
    def alternatives(self) -> list[str]:
        """Other types that fit every node, cheapest first."""
        # Nodes often share one sequence of hundreds of types: use each once.
        distinct = {id(node.instance_types): node.instance_types for node in self.nodes}.values()
        common = set.intersection(*({instance_type.name for instance_type in types} for types in distinct))
        return [choice.name for choice in self.first.instance_types[1:] if choice.name in common]


def group_nodes(nodes: Iterable[PlannedNode]) -> list[NodeGroup]:
    """Return groups of nodes, the most expensive first."""
    nodes = tuple(nodes)
    groups = _group(nodes, by_pods=True)
    if len(groups) > MAX_GROUPS:
        groups = _group(nodes, by_pods=False)
    return sorted(groups, key=lambda group: (-group.price, group.first.name))


def group_existing(nodes: Iterable[ExistingPlacement]) -> list[list[ExistingPlacement]]:
    """Return groups of existing nodes that get the same pods, in the plan's order."""
    groups: dict[WorkloadCounts, list[ExistingPlacement]] = {}
    for node in nodes:
        groups.setdefault(count_by_workload(node.pods), []).append(node)
    return list(groups.values())


def group_unschedulable(plan: Plan) -> dict[tuple[UnschedulableReason, ...], list[Pod]]:
    """Return the pods with the same reasons, in the plan's order."""
    groups: dict[tuple[UnschedulableReason, ...], list[Pod]] = {}
    for unschedulable in plan.unschedulable:
        groups.setdefault(unschedulable.reasons, []).append(unschedulable.pod)
    return groups


def count_by_workload(pods: Iterable[Pod]) -> WorkloadCounts:
    """Return the number of pods per workload, largest first."""
    counts = Counter(get_workload(pod) for pod in pods)
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def get_workload(pod: Pod) -> str:
    """Return the name of the workload that owns a pod."""
    if pod.owner is None:
        name = pod.name
    else:
        # A live Deployment's pods belong to a ReplicaSet named <deployment>-<hash>.
        name = pod.owner.name.removesuffix(f"-{pod.labels.get('pod-template-hash', '')}")
    return name if pod.namespace == "default" else f"{pod.namespace}/{name}"


def _group(nodes: Iterable[PlannedNode], *, by_pods: bool) -> list[NodeGroup]:
    groups: dict[tuple[object, ...], list[PlannedNode]] = {}
    for node in nodes:
        offering = node.offering
        key: tuple[object, ...] = (
            node.nodepool,
            node.instance_type.name,
            offering.capacity_type,
            offering.price,
        )
        if by_pods:
            key = (*key, count_by_workload(node.pods), node.requested)
        groups.setdefault(key, []).append(node)
    return [NodeGroup(nodes=tuple(group)) for group in groups.values()]
