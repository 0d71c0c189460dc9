"""A plan for a cluster as a person reads it: a tree, with what it costs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from dovetail.eks.plan.diff import Change
from dovetail.eks.plan.planner import Plan, Step, Verb
from dovetail.eks.plan.resource import Resource
from dovetail.eks.plan.resource_kinds import KINDS

_BRANCHES: Final[Mapping[str, tuple[str, ...]]] = {
    "network": (
        "vpc",
        "subnet",
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
        "eks-access-entry",
        "pod-identity-association",
    ),
    "cluster": ("eks-cluster", "log-group", "eks-addon"),
    "nodes": ("launch-template", "eks-node-group", "eks-fargate-profile"),
    "interruption": ("sqs-queue", "sqs-queue-policy", "event-rule"),
    "software": ("helm-release", "kubernetes-object"),
}
_SIGNS: Final = {Verb.CREATE: ("+", "green"), Verb.CHANGE: ("~", "yellow"), Verb.REMOVE: ("-", "")}
_REPLACED: Final = ("±", "bold red")
_WIDEST: Final = 46


def plan_lines(plan: Plan, *, name: str, where: str) -> list[Text]:
    """Write what would be done, by branch; what is replaced is red."""
    lines = [Text(f"{name} in {where}", style="bold")]
    lines += [Text(f"! {one}", style="bold red") for one in missing_lines(plan.missing)]
    lines += [
        Text(f"… {one.address} is being made, changed or removed just now", style="yellow")
        for one in plan.unsettled
    ]
    if not plan.steps:
        lines.append(Text("nothing to do: all is as the file says"))
        lines.append(_total(plan))
        return lines
    shown = _together(plan.steps)
    branches = [(title, _of(shown, kinds)) for title, kinds in _BRANCHES.items()]
    filled = [(title, steps) for title, steps in branches if steps]
    for number, (title, steps) in enumerate(filled):
        last = number == len(filled) - 1
        lines.append(Text(("└─ " if last else "├─ ") + title, style="bold"))
        lines += _branch(steps, "   " if last else "│  ")
    return [*lines, Text(_summary(plan.steps), style="bold"), _total(plan)]


def missing_lines(missing: Iterable[Resource]) -> list[str]:
    """Say what should have been there before us."""
    return [_missing(one) for one in missing]


def _missing(one: Resource) -> str:
    if one.kind == "subnet-selection":
        return "vpc.existing: no such subnet is in this account and region"
    return f"{KINDS[one.kind].called} {one.name} should be there and is not"


def plan_json(plan: Plan, *, name: str, where: str) -> str:
    """Write the same for programs."""
    whole = {
        "cluster": name,
        "region": where,
        "steps": [_as_data(one) for one in plan.steps],
        "missing": [one.address for one in plan.missing],
        "unsettled": [one.address for one in plan.unsettled],
        "monthlyUsd": round(plan.monthly_usd, 2),
    }
    return json.dumps(whole, indent=2, ensure_ascii=False)


def _as_data(step: Step) -> dict[str, Any]:
    return {
        "verb": step.verb.value,
        "kind": step.kind,
        "name": step.name,
        "why": step.wanted.why if step.wanted else "",
        "replaces": step.replaces,
        "monthlyUsd": round(step.wanted.monthly_usd, 2) if step.wanted else 0,
        "changes": [
            {
                "path": list(one.path),
                "before": one.before,
                "after": one.after,
                "replaces": one.replaces,
            }
            for one in step.changes
        ],
    }


def _together(steps: Sequence[Step]) -> list[Step]:
    """Leave out the first half of each replacement: the second tells of both."""
    return [one for one in steps if not (one.replaces and one.verb is Verb.REMOVE)]


def _of(steps: Sequence[Step], kinds: tuple[str, ...]) -> list[Step]:
    rank = {kind: number for number, kind in enumerate(kinds)}
    return sorted(
        (one for one in steps if one.kind in rank), key=lambda one: (rank[one.kind], one.name)
    )


def _branch(steps: Sequence[Step], stem: str) -> list[Text]:
    lines: list[Text] = []
    for number, step in enumerate(steps):
        last = number == len(steps) - 1
        sign, style = _REPLACED if step.replaces else _SIGNS[step.verb]
        what = f"{KINDS[step.kind].called} {step.name}"
        line = Text(stem + ("└─ " if last else "├─ "))
        line.append(f"{sign} {what}".ljust(_WIDEST), style=style)
        line.append(_aside(step), style="dim")
        lines.append(line)
        below = stem + ("   " if last else "│  ")
        lines += [_change(one, below) for one in step.changes]
    return lines


def _aside(step: Step) -> str:
    if step.wanted is None:
        return ""
    cost = f"${step.wanted.monthly_usd:,.2f} a month" if step.wanted.monthly_usd else ""
    return "  " + ", ".join(one for one in (cost, step.wanted.why) if one)


def _change(change: Change, stem: str) -> Text:
    line = Text(f"{stem}  ")
    told = f"{change}; it cannot be changed, so it is replaced" if change.replaces else str(change)
    line.append(told, style="red" if change.replaces else "yellow")
    return line


def _summary(steps: Sequence[Step]) -> str:
    shown = _together(steps)
    replaced = sum(one.replaces for one in shown)
    counts = {
        "to make": sum(one.verb is Verb.CREATE and not one.replaces for one in shown),
        "to change": sum(one.verb is Verb.CHANGE for one in shown),
        "to replace": replaced,
        "to remove": sum(one.verb is Verb.REMOVE for one in shown),
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def _total(plan: Plan) -> Text:
    told = f"${plan.monthly_usd:,.2f} a month at list prices, nodes that pods call for not counted"
    return Text(told, style="dim") if plan.monthly_usd else Text("")
