"""The plan as a person reads it: what is alike is told once, totals last."""

from collections.abc import Iterable, Sequence

from rich.text import Text

from dovetail.cli.output.console import columns
from dovetail.cli.output.plan_report import HOURS_PER_MONTH, totals_of
from dovetail.cli.simulate.grouping import (
    Composition,
    NodeGroup,
    alike_existing,
    alike_nodes,
    alike_refusals,
    composition,
)
from dovetail.model.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from dovetail.model.plan import Plan

NAMED_WORKLOADS = 6
NAMED_ALTERNATIVES = 3
NAMED_NODES = 40
NAMED_ALIKE = 2

_HEADER = ["", "INSTANCE TYPE", "CAPACITY", "ZONE", "NODEPOOL", "CPU", "MEMORY GiB", "$/HOUR"]
_FLUSH_RIGHT = frozenset({0, 5, 6, 7})
_SHOWN_IN_COLUMNS = frozenset({CPU, MEMORY, PODS, EPHEMERAL_STORAGE})


def plan_lines(plan: Plan, *, prices: str, notes: Sequence[str] = ()) -> list[Text]:
    """Write a plan for a person to read."""
    pods = _Pods(plan)
    return [
        *_new_nodes(plan, pods),
        *_existing_nodes(plan, pods),
        *_unplaced(plan, pods),
        Text(_totals(plan), style="bold"),
        Text(f"Prices: {prices}.", style="dim"),
        *(Text(f"Note: {note}", style="dim") for note in notes),
    ]


class _Pods:
    """Tells pods by workload; a namespace that all of them share goes without saying."""

    def __init__(self, plan: Plan) -> None:
        placed = [*(one.pods for one in plan.nodes), *(one.pods for one in plan.existing)]
        spaces = {pod.namespace for pods in placed for pod in pods}
        spaces |= {one.pod.namespace for one in plan.unplaced}
        self._unsaid = f"{next(iter(spaces))}/" if len(spaces) == 1 else ""

    def told(self, counted: Composition) -> str:
        named = [
            name.removeprefix(self._unsaid) + (f" × {count:,}" if count > 1 else "")
            for name, count in counted
        ]
        if len(named) <= NAMED_WORKLOADS:
            return ", ".join(named)
        rest = sum(count for _, count in counted[NAMED_WORKLOADS - 1 :])
        return ", ".join(named[: NAMED_WORKLOADS - 1]) + f" and {rest:,} pods of others"


def _new_nodes(plan: Plan, pods: "_Pods") -> Iterable[Text]:
    if not plan.nodes:
        return
    groups = alike_nodes(plan.nodes)
    header, *rows = columns([_HEADER, *(_row(group) for group in groups)], _FLUSH_RIGHT)
    indent = " " * header.index(_HEADER[1])
    yield Text(header, style="bold")
    for row, group in zip(rows, groups, strict=True):
        yield Text(row)
        yield Text(indent + _details(group, pods), style="dim")
    yield Text()


def _row(group: NodeGroup) -> list[str]:
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


def _zones(counted: Composition) -> str:
    """Tell zones of one region briefly: us-east-1a×2,b,c."""
    region = counted[0][0][:-1]
    brief = all(zone[:-1] == region for zone, _ in counted)
    even = len({count for _, count in counted}) == 1
    named = [
        (zone[-1] if brief else zone) + ("" if even else f"×{count:,}") for zone, count in counted
    ]
    return (region if brief else "") + ",".join(named)


def _details(group: NodeGroup, pods: "_Pods") -> str:
    """Tell what runs on each node, special resources, and what else would do."""
    alike = len({composition(node.pods) for node in group.nodes}) == 1
    several = "each: " if len(group.nodes) > 1 else ""
    node = group.first
    parts = [
        several + pods.told(composition(node.pods)) if alike else "in all: " + pods.told(group.pods)
    ]
    for name in sorted(node.requested.without_zeros()):
        if name not in _SHOWN_IN_COLUMNS:
            room = node.instance_type.allocatable.get(name, 0)
            parts.append(f"{name} {node.requested[name]}/{room}")
    if group.alternatives:
        parts.append("or " + _some(group.alternatives, NAMED_ALTERNATIVES))
    return " · ".join(parts)


def _existing_nodes(plan: Plan, pods: "_Pods") -> Iterable[Text]:
    if not plan.existing:
        return
    number = sum(len(one.pods) for one in plan.existing)
    yield Text(f"On nodes that are there already: {_count(number, 'pod')}", style="bold")
    groups = alike_existing(plan.existing)
    shown = groups[:NAMED_NODES]
    rows = [
        [
            f"  {_some([one.node for one in group], NAMED_ALIKE)}",
            ("each: " if len(group) > 1 else "") + pods.told(composition(group[0].pods)),
        ]
        for group in shown
    ]
    yield from (Text(line) for line in columns(rows))
    if len(groups) > len(shown):
        rest = sum(len(group) for group in groups[len(shown) :])
        yield Text(f"  … and {rest:,} more nodes")
    yield Text()


def _unplaced(plan: Plan, pods: "_Pods") -> Iterable[Text]:
    if not plan.unplaced:
        return
    yield Text(f"No node for {_count(len(plan.unplaced), 'pod')}", style="bold red")
    for group in alike_refusals(plan):
        yield Text(f"  {pods.told(composition(group.pods))}", style="bold")
        rows = [
            [f"    {refusal.nodepool or 'any'}", refusal.constraint.value, refusal.message]
            for refusal in group.refusals
        ]
        yield from (Text(line) for line in (columns(rows) if rows else []))
    yield Text()


def _totals(plan: Plan) -> str:
    totals = totals_of(plan)
    on_existing = sum(len(one.pods) for one in plan.existing)
    parts = []
    if totals.nodes:
        parts.append(
            f"{_count(totals.nodes, 'new node')} for {_count(totals.pods - on_existing, 'pod')}: "
            f"${totals.price_per_hour:,.4f} per hour, "
            f"${totals.price_per_month:,.2f} per month ({HOURS_PER_MONTH} h)"
        )
    if on_existing:
        parts.append(f"{_count(on_existing, 'pod')} on nodes that are there")
    if plan.unplaced:
        parts.append(f"{_count(len(plan.unplaced), 'pod')} left over")
    return "; ".join(parts) or "Nothing to place: no pod waits for a node"


def _some(names: Sequence[str], shown: int) -> str:
    if len(names) <= shown:
        return ", ".join(names)
    return ", ".join(names[:shown]) + f" and {len(names) - shown:,} more"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
