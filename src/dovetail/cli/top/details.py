"""Paragraphs about one object, and the summary of the cluster."""

from collections.abc import Iterable
from typing import Final

from rich.text import Text

from dovetail.cli.top.format import (
    count,
    draw_bar,
    format_age,
    format_cpu,
    format_memory,
    format_price,
    get_share,
)
from dovetail.cli.top.lists import Item, PodRow, describe_pending, describe_pod_state, describe_why
from dovetail.dashboard.sources.source import SourceStatus
from dovetail.view.document import (
    HOURS_PER_MONTH,
    BlockerView,
    DecisionView,
    NodeClaimView,
    NodePoolView,
    NodeView,
    Notice,
    PendingPodView,
    PhaseView,
    View,
)

_ADVICE: Final = {
    "goes": "Nothing: it is terminated or replaced next.",
    "leaving": "Nothing: it is being deleted or replaced.",
    "unmanaged": "Move its pods to a NodePool and delete the node: only nodes of a NodePool are disrupted.",
    "spared": "Change the blocker: allow a disruption in the PodDisruptionBudget, or remove the annotation "
    "karpenter.sh/do-not-disrupt.",
    "setting": "Change consolidationPolicy or consolidateAfter of its NodePool.",
    "budget": "Wait until other disruptions end, or raise disruption.budgets of its NodePool.",
    "young": "Wait: consolidateAfter of its NodePool has not passed since its pods changed.",
    "unfit": "Add its instance type, zone and capacity type to the price book or catalogue.",
    "no-place": "Relax the constraints of the pod that is named, or the requirements of the NodePools.",
    "not-ready": "Wait until the node that is starting is ready.",
    "not-cheaper": "Smaller requests, or requirements that allow more and cheaper instance types.",
    "more-nodes": "A larger difference in price, or a lower --node-cost of the controller.",
}
"""Change that would let a node go, by code of the keep reason."""
_MAX_NAME: Final = 24
"""Characters of a cluster's name that fit beside source, region and time in 80 columns."""


def summarize(view: View, status: SourceStatus, *, bars: bool = True) -> list[Text]:
    """Return the lines above the node list: which cluster, its size and its price."""
    return [_title(view, status), _sizes(view), _prices(view), *([_usage(view)] if bars else [])]


def _title(view: View, status: SourceStatus) -> Text:
    cluster = view.cluster
    about = ", ".join(filter(None, [cluster.source, cluster.region, cluster.autoscaler]))
    name = cluster.name or "cluster"
    if len(name) > _MAX_NAME:
        # The end of a path, an address or an ARN is what differs.
        name = "…" + name[1 - _MAX_NAME :]
    line = Text.assemble((name, "bold"), f" ({about})  {view.at:%Y-%m-%d %H:%M:%S} UTC")
    if status.stale:
        since = f" for {format_age(status.since, view.at)}" if status.since else ""
        line.append(f"  STALE{since}: {status.reason}", "bold red")
    return line


def _sizes(view: View) -> Text:
    totals = view.totals
    starting = totals.nodes - totals.ready_nodes
    line = Text(count(totals.nodes, "node"))
    if starting:
        line.append(f" ({starting:,} not ready)", "yellow")
    line.append(f", {count(totals.pods, 'pod')}, ")
    line.append(f"{totals.pending_pods:,} pending", "bold yellow" if totals.pending_pods else "")
    if totals.node_claims:
        line.append(f", {count(totals.node_claims, 'NodeClaim')} in flight", "cyan")
    return line


def _prices(view: View) -> Text:
    totals = view.totals
    if 0 < totals.nodes == totals.unpriced_nodes:
        return Text("no price of a node is known", "yellow")
    line = Text.assemble(
        (f"${totals.price_per_hour:,.4f}/h", "bold"), f" = ${totals.price_per_month:,.0f}/month"
    )
    if totals.unpriced_nodes:
        line.append(f" + {count(totals.unpriced_nodes, 'node')} without a price", "yellow")
    if totals.gap_per_hour is not None and totals.lower_bound_per_hour is not None:
        line.append(f"  bound ${totals.lower_bound_per_hour:,.4f}, gap ${totals.gap_per_hour:,.4f}")
    if totals.blocked_saving_per_hour is not None:
        line.append(f"  blocked savings ${totals.blocked_saving_per_hour:,.4f}/h")
    elif totals.blocked_price_per_hour:
        line.append(f"  blocked nodes ${totals.blocked_price_per_hour:,.4f}/h")
    if view.savings.since is not None:
        line.append(f"  saved ${view.savings.realized:,.2f}", "green")
    return line


def _usage(view: View) -> Text:
    cpu, memory = view.totals.cpu, view.totals.memory
    return Text.assemble(
        "CPU ",
        draw_bar(get_share(cpu), 12),
        f" {get_share(cpu):.0%} of {format_cpu(cpu.allocatable)}   memory ",
        draw_bar(get_share(memory), 12),
        f" {get_share(memory):.0%} of {format_memory(memory.allocatable)}",
    )


def describe(item: Item, view: View) -> list[Text]:
    """Return the paragraph about an entry of a list."""
    lines: Iterable[Text]
    match item:
        case NodeView():
            lines = _describe_node(item, view)
        case PodRow():
            lines = _describe_pod(item, view)
        case PendingPodView():
            lines = _describe_pending_pod(item, view)
        case DecisionView():
            lines = _describe_decision(item, view)
        case NodePoolView():
            lines = _describe_pool(item)
        case BlockerView():
            lines = _describe_blocker(item, view)
        case NodeClaimView():
            lines = _describe_claim(item, view)
        case Notice():
            lines = [Text(item.message), *([_field("what to do", item.remedy)] if item.remedy else [])]
    return list(lines)


def _field(name: str, value: str | Text) -> Text:
    return Text.assemble((f"{name}: ", "bold"), value)


def _describe_node(node: NodeView, view: View) -> Iterable[Text]:
    offering = " ".join(filter(None, [node.instance_type, node.capacity_type, node.zone, node.arch]))
    yield Text.assemble((node.name, "bold"), f"  {offering}")
    owner = f"NodePool {node.node_pool}" if node.node_pool else "no NodePool"
    claim = f", NodeClaim {node.node_claim}" if node.node_claim else ""
    instance = f", {node.instance_id}" if node.instance_id else ""
    yield Text(f"{owner}{claim}{instance}, age {format_age(node.created_at, view.at)}")
    yield _price_of(node)
    yield Text(
        f"requested: {format_cpu(node.cpu.requested)} of {format_cpu(node.cpu.allocatable)} CPU "
        f"({get_share(node.cpu):.0%}), {format_memory(node.memory.requested)} of "
        f"{format_memory(node.memory.allocatable)} memory ({get_share(node.memory):.0%}), "
        f"{node.pods.requested} of {count(node.pods.allocatable, 'pod')}"
    )
    yield from _describe_keep(node)
    for condition in node.conditions:
        since = f" for {format_age(condition.since, view.at)}" if condition.since else ""
        why = ": ".join(filter(None, [condition.reason, condition.message]))
        yield _field(f"{condition.type}={condition.status}{since}", why)


def _price_of(node: NodeView) -> Text:
    if node.price_per_hour is None:
        return _field("price", "not known: instance type, zone or capacity type is not in the price book")
    month = node.price_per_hour * HOURS_PER_MONTH
    more = f", and ${node.node_cost_per_hour:,.4f}/h beyond its instance" if node.node_cost_per_hour else ""
    return _field("price", f"${format_price(node.price_per_hour)}/h = ${month:,.0f}/month{more}")


def _describe_keep(node: NodeView) -> Iterable[Text]:
    keep = node.keep
    goes = keep is not None and keep.code == "goes"
    yield _field("why it goes" if goes else "why it stays", describe_why(node))
    if keep is None:
        return
    if keep.blocker is not None:
        yield _field("blocker", f"{keep.blocker.kind} {keep.blocker.name}")
    if keep.saving_per_hour:
        yield _field("its removal saves", f"${keep.saving_per_hour:,.4f}/h")
    if keep.code in _ADVICE:
        yield _field("what would change that", _ADVICE[keep.code])


def _describe_pod(row: PodRow, view: View) -> Iterable[Text]:
    workload, pod = row.workload, row.pod
    if pod is None:
        yield Text(f"{workload.kind} {workload.namespace}/{workload.name}", style="bold")
        yield Text(f"{count(len(workload.pods), 'pod')} on this node")
        return
    yield Text(f"{workload.namespace}/{pod.name}", style="bold")
    yield _field("workload", f"{workload.kind} {workload.namespace}/{workload.name}")
    yield _field("state", f"{describe_pod_state(pod)}, age {format_age(pod.created_at, view.at)}")
    yield _field("requests", f"{format_cpu(pod.cpu)} CPU, {format_memory(pod.memory)} memory")
    node = _node_of(row, view)
    if node is None:
        return
    yield _field("node", f"{node.name} ({node.instance_type or 'type not known'}, {node.zone or '-'})")
    if node.price_per_hour is not None and node.cpu.allocatable and node.memory.allocatable:
        cpu, memory = pod.cpu / node.cpu.allocatable, pod.memory / node.memory.allocatable
        price = node.price_per_hour * (cpu + memory) / 2
        yield _field(
            "share of the node",
            f"{cpu:.0%} of its CPU, {memory:.0%} of its memory: ${price:,.4f}/h by the mean of both",
        )
    if node.keep is not None and node.keep.blocker is not None:
        name = node.keep.blocker.name
        if node.keep.blocker.kind == "Pod" and name == f"{workload.namespace}/{pod.name}":
            yield Text("This pod keeps its node from being disrupted.", style="yellow")
    yield from _describe_keep(node)


def _node_of(row: PodRow, view: View) -> NodeView | None:
    for node in view.nodes.values():
        if any(workload is row.workload or workload == row.workload for workload in node.workloads):
            return node
    return None


def _describe_pending_pod(pod: PendingPodView, view: View) -> Iterable[Text]:
    yield Text(pod.key, style="bold")
    if pod.workload is not None:
        yield _field("workload", f"{pod.workload.kind} {pod.workload.name}")
    yield _field("requests", f"{format_cpu(pod.cpu)} CPU, {format_memory(pod.memory)} memory")
    why = describe_pending(pod)
    yield _field("waits", f"{format_age(pod.created_at, view.at)}: {why}")
    for message in pod.messages:
        if message != why:
            yield Text(f"  {message}")
    if pod.nearest_fit and pod.nearest_fit not in pod.messages:
        yield _field("nearest fit", pod.nearest_fit)
    claim = view.node_claims.get(pod.node_claim)
    if claim is not None:
        yield from _describe_claim(claim, view)
    elif pod.expected_at is not None:
        yield _field("its node is expected at", f"{pod.expected_at:%H:%M:%S}")


def _describe_claim(claim: NodeClaimView, view: View) -> Iterable[Text]:
    offering = " ".join(filter(None, [claim.instance_type, claim.capacity_type, claim.zone]))
    yield _field("NodeClaim", f"{claim.name}  {offering}  NodePool {claim.node_pool or '-'}")
    for phase in claim.phases:
        yield Text(f"  {phase.phase.value}: {_duration(phase, view)}")
    if claim.message:
        yield _field("waits for", claim.message)
    if claim.replaces:
        yield _field("replaces", ", ".join(claim.replaces))
    yield _field("launched for", count(claim.pods, "pod"))
    if claim.expected_at is not None:
        yield _field("expected at", f"{claim.expected_at:%H:%M:%S}")


def _duration(phase: PhaseView, view: View) -> str:
    seconds = ((phase.ended_at or view.at) - phase.started_at).total_seconds()
    return f"{seconds:,.0f} s" + ("" if phase.ended_at else " so far")


def _describe_decision(decision: DecisionView, view: View) -> Iterable[Text]:
    yield Text.assemble(
        (decision.kind.value, "bold"),
        f" at {decision.at:%H:%M:%S} ({format_age(decision.at, view.at)} ago), {decision.state.value}",
    )
    for name, value in (
        ("reason", decision.reason),
        ("because", decision.message),
        ("NodePools", ", ".join(decision.node_pools)),
        ("nodes", ", ".join(decision.nodes)),
        ("NodeClaims", ", ".join(decision.node_claims)),
        ("replacements", ", ".join(decision.replacements)),
        ("pods that move", str(decision.pods) if decision.pods else ""),
    ):
        if value:
            yield _field(name, value)
    if decision.expected_per_hour is not None:
        yield _field("expected saving", f"${decision.expected_per_hour:,.4f}/h")
    if decision.realized_per_hour is not None:
        total = f", ${decision.realized:,.4f} so far" if decision.realized is not None else ""
        ended = f" (until {decision.until:%H:%M:%S})" if decision.until else ""
        yield _field("real saving", f"${decision.realized_per_hour:,.4f}/h{total}{ended}")


def _describe_pool(pool: NodePoolView) -> Iterable[Text]:
    yield Text.assemble((pool.name, "bold"), f"  EC2NodeClass {pool.node_class or '-'}, weight {pool.weight}")
    if not pool.ready:
        yield _field("not ready", pool.message)
    yield Text(f"{count(pool.nodes, 'node')}, ${pool.price_per_hour:,.4f}/h")
    after = pool.consolidate_after_seconds
    waits = "never" if after is None else f"after {after:,.0f} s"
    yield _field("consolidation", f"{pool.consolidation_policy or '-'}, {waits}")
    for budget in pool.budgets:
        reasons = ", ".join(budget.reasons) or "all reasons"
        when = f", schedule {budget.schedule}" if budget.schedule else ""
        active = "" if budget.active else " (not active now)"
        yield _field("budget", f"{budget.nodes} for {reasons}{when}{active}")
    for reason, nodes in sorted(pool.allowed_disruptions.items()):
        yield Text(f"  {reason}: {count(nodes, 'node')} may be disrupted now")
    for name, limit in sorted(pool.limits.items()):
        yield _field(f"limit of {name}", f"{pool.usage.get(name, 0):,} of {limit:,} used")


def _describe_blocker(blocker: BlockerView, view: View) -> Iterable[Text]:
    yield Text(f"{blocker.kind} {blocker.name}", style="bold")
    yield Text(blocker.message)
    yield _field("keeps", f"{count(len(blocker.nodes), 'node')}, ${blocker.price_per_hour:,.4f}/h")
    if blocker.saving_per_hour is not None:
        yield _field("without it", f"${blocker.saving_per_hour:,.4f}/h could be saved")
    for name in blocker.nodes:
        node = next((each for each in view.nodes.values() if each.name == name), None)
        price = format_price(node.price_per_hour) if node else "-"
        yield Text(f"  {name}  {node.instance_type if node else ''}  ${price}/h")
