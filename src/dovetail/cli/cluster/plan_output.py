"""Output of a plan: a tree with costs for users, JSON for programs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from rich.text import Text

from dovetail.cli.cluster.progress import format_duration
from dovetail.eks.plan.diff import PropertyChange
from dovetail.eks.plan.planner import Action, FollowUp, Plan, Step
from dovetail.eks.plan.resource import DesiredResource
from dovetail.eks.plan.resource_kinds import KINDS
from dovetail.eks.prices import node_estimate

_BRANCHES: Final[Mapping[str, tuple[str, ...]]] = {
    "network": (
        "vpc",
        "vpc-ipv6-block",
        "subnet",
        "egress-only-gateway",
        "internet-gateway",
        "internet-gateway-attachment",
        "elastic-ip",
        "nat-gateway",
        "route-table",
        "route",
        "route-table-association",
        "vpc-endpoint",
        "security-group",
        "security-group-rule",
        "subnet-selection",
        "ec2-tags",
    ),
    "identity": (
        "iam-role",
        "iam-policy",
        "instance-profile",
        "oidc-provider",
        "service-linked-role",
        "eks-access-entry",
        "pod-identity-association",
    ),
    "cluster": ("kms-key", "kms-alias", "eks-cluster", "log-group", "eks-addon"),
    "nodes": ("launch-template", "eks-node-group", "eks-fargate-profile"),
    "interruption": ("sqs-queue", "sqs-queue-policy", "event-rule"),
    "software": ("helm-release", "kubernetes-object"),
}
"""Branches of the tree, and the resource kinds in each, in order."""
_SIGNS: Final = {Action.CREATE: ("+", "green"), Action.UPDATE: ("~", "yellow"), Action.DELETE: ("-", "")}
"""Action → sign and style."""
_REPLACE_SIGN: Final = ("±", "bold red")
_RESOURCE_COLUMNS: Final = 46
_SHOWN_SECONDS: Final = 60
"""Shorter steps are shown without their duration."""


def plan_lines(plan: Plan, *, name: str, region: str) -> list[Text]:
    """Return the plan as a tree, one branch per topic; replacements are red."""
    lines = [Text(f"{name} in {region}", style="bold")]
    lines += [Text(f"! {line}", style="bold red") for line in missing_lines(plan.missing)]
    lines += [
        Text(f"… {resource.address} is being created, updated or deleted", style="yellow")
        for resource in plan.unsettled
    ]
    lines += [Text(f"! {note}", style="yellow") for note in (*plan.kept, *plan.advice, *plan.notes)]
    if not plan.steps:
        lines.append(Text("nothing to do: the cluster matches the file"))
        return [*lines, *_cost_lines(plan, region)]
    steps = _without_replacement_deletes(plan.steps)
    branches = [(title, _select(steps, kinds)) for title, kinds in _BRANCHES.items()]
    non_empty = [(title, branch) for title, branch in branches if branch]
    for number, (title, branch) in enumerate(non_empty):
        is_last = number == len(non_empty) - 1
        lines.append(Text(("└─ " if is_last else "├─ ") + title, style="bold"))
        lines += _branch_lines(branch, "   " if is_last else "│  ")
    lines += [Text(f"then {_follow_up(work)}", style="yellow") for work in plan.follow_ups]
    summary = f"{_summary(plan.steps)}; about {format_duration(plan.seconds())}"
    return [*lines, Text(summary, style="bold"), *_cost_lines(plan, region)]


def _follow_up(work: FollowUp) -> str:
    return work.message if work.seconds is None else f"{work.message}: about {format_duration(work.seconds)}"


def missing_lines(missing: Iterable[DesiredResource]) -> list[str]:
    """Return one line per external resource that does not exist."""
    return [_missing_line(resource) for resource in missing]


def _missing_line(resource: DesiredResource) -> str:
    if resource.kind == "subnet-selection":
        return "vpc.existing: no such subnet exists in this account and region"
    return f"{KINDS[resource.kind].display_name} {resource.name} does not exist, but is required"


def plan_json(plan: Plan, *, name: str, region: str) -> str:
    """Return the plan as JSON."""
    estimate = node_estimate(region)
    document = {
        "cluster": name,
        "region": region,
        "steps": [_encode_step(step) for step in plan.steps],
        "missing": [resource.address for resource in plan.missing],
        "unsettled": [resource.address for resource in plan.unsettled],
        "kept": list(plan.kept),
        "followUps": [msgspec.to_builtins(work) for work in plan.follow_ups],
        "seconds": plan.seconds(),
        "advice": list(plan.advice),
        "notes": list(plan.notes),
        "monthlyUsd": round(plan.monthly_usd, 2),
        "costNotes": list(plan.cost_notes),
        "nodePricesEstimatedFrom": estimate and msgspec.to_builtins(estimate),
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _encode_step(step: Step) -> dict[str, Any]:
    return {
        "verb": step.action.value,
        "kind": step.kind,
        "name": step.name,
        "why": step.desired.purpose if step.desired else "",
        "replaces": step.is_replacement,
        "monthlyUsd": round(step.desired.monthly_usd, 2) if step.desired else 0,
        "seconds": step.seconds,
        "changes": [
            {
                "path": list(change.path),
                "before": change.before,
                "after": change.after,
                "replaces": change.forces_replacement,
            }
            for change in step.changes
        ],
    }


def _without_replacement_deletes(steps: Sequence[Step]) -> list[Step]:
    """Return the steps with one step per replacement: the creation."""
    return [step for step in steps if not (step.is_replacement and step.action is Action.DELETE)]


def _select(steps: Sequence[Step], kinds: tuple[str, ...]) -> list[Step]:
    rank = {kind: number for number, kind in enumerate(kinds)}
    return sorted(
        (step for step in steps if step.kind in rank), key=lambda step: (rank[step.kind], step.name)
    )


def _branch_lines(steps: Sequence[Step], indent: str) -> list[Text]:
    lines: list[Text] = []
    for number, step in enumerate(steps):
        is_last = number == len(steps) - 1
        sign, style = _REPLACE_SIGN if step.is_replacement else _SIGNS[step.action]
        resource = f"{KINDS[step.kind].display_name} {step.name}"
        line = Text(indent + ("└─ " if is_last else "├─ "))
        line.append(f"{sign} {resource}".ljust(_RESOURCE_COLUMNS), style=style)
        line.append(_details(step), style="dim")
        lines.append(line)
        inner_indent = indent + ("   " if is_last else "│  ")
        lines += [_change_line(change, inner_indent) for change in step.changes]
    return lines


def _details(step: Step) -> str:
    """Return cost and purpose of a step's resource, and a duration of minutes."""
    if step.desired is None:
        return ""
    cost = f"${step.desired.monthly_usd:,.2f} a month" if step.desired.monthly_usd else ""
    duration = f"about {format_duration(step.seconds)}" if step.seconds >= _SHOWN_SECONDS else ""
    return "  " + ", ".join(text for text in (cost, step.desired.purpose, duration) if text)


def _change_line(change: PropertyChange, indent: str) -> Text:
    line = Text(f"{indent}  ")
    if change.forces_replacement:
        line.append(f"{change}; immutable, so the resource is replaced", style="red")
    else:
        line.append(str(change), style="yellow")
    return line


def _summary(steps: Sequence[Step]) -> str:
    shown = _without_replacement_deletes(steps)
    counts = {
        "to create": sum(step.action is Action.CREATE and not step.is_replacement for step in shown),
        "to update": sum(step.action is Action.UPDATE for step in shown),
        "to replace": sum(step.is_replacement for step in shown),
        "to delete": sum(step.action is Action.DELETE for step in shown),
    }
    return ", ".join(f"{count} {label}" for label, count in counts.items() if count)


def _cost_lines(plan: Plan, region: str) -> list[Text]:
    if not plan.monthly_usd and not plan.cost_notes:
        return [Text("")]
    total = f"${plan.monthly_usd:,.2f} a month at list prices, without the nodes that NodePools launch"
    estimate = node_estimate(region)
    if estimate is not None:
        total += f"; {estimate.describe()}"
    return [Text(line, style="dim") for line in (total, *(f"  {note}" for note in plan.cost_notes))]
