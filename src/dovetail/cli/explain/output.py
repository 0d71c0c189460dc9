"""Explanations as a person reads them, and the documents that ``-o json`` prints.

Field names are a promise to scripts: add, never rename.
"""

from collections.abc import Iterable, Sequence

import msgspec
from rich.text import Text

from dovetail.cli.output.console import columns
from dovetail.cli.output.plan_report import HOURS_PER_MONTH
from dovetail.core.disruption.command import Stay
from dovetail.model import labels as label_keys
from dovetail.model.plan import Refusal
from dovetail.state.explain.blockers import Held

_SHOWN_PODS = 10


class Nodes(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes, the dearest first."""

    nodes: list[Stay]


class NodeStory(msgspec.Struct, frozen=True, kw_only=True):
    """One node, and why it is there."""

    stay: Stay
    claim: str
    nodepool: str
    labels: dict[str, str]
    pods: list[str]
    """That would need another node."""
    others: int
    """DaemonSets' pods, and those that have ended."""
    allocatable: dict[str, str]
    free: dict[str, str]


class PodStory(msgspec.Struct, frozen=True, kw_only=True):
    """One pod: where it is, or what it can expect."""

    pod: str
    node: str = ""
    waiting: bool = False
    budgets: list[str] = []
    blocking: list[str] = []
    """Of the budgets, those that let nobody evict it now."""
    protected: bool = False
    """By its annotation."""
    stay: Stay | None = None
    """Of its node, where the pod may be what holds it."""
    claim: str = ""
    """The NodeClaim that was made for it."""
    existing: str = ""
    new: str = ""
    new_nodepool: str = ""
    new_price: float = 0.0
    refusals: list[Refusal] = []


class Blockers(msgspec.Struct, frozen=True, kw_only=True):
    """Who keeps nodes, the dearest first, and the cluster they are in."""

    blockers: tuple[Held, ...]
    nodes: int
    price: float
    saving: float
    """USD per hour that can be saved as things are, in the end."""


def nodes_lines(stays: Sequence[Stay], prices: str) -> Iterable[Text]:
    """Write a line for each node, the dearest first."""
    if not stays:
        yield Text("There are no nodes.")
        return
    rows = [[one.node, _price(one), one.code, one.because] for one in stays]
    header, *lines = columns([["NODE", "$/HOUR", "", "WHY IT STAYS"], *rows], frozenset({1}))
    yield Text(header, style="bold")
    for line, one in zip(lines, stays, strict=True):
        yield Text(line, style="green" if one.code == "goes" else "")
    yield Text()
    total = sum(one.price for one in stays)
    unpriced = sum(not _is_priced(one) for one in stays)
    besides = f"; {unpriced:,} without a price are not counted" if unpriced else ""
    yield Text(f"{len(stays):,} nodes, {_per_hour(total)}{besides}.", style="bold")
    yield _about(prices)


def node_lines(story: NodeStory, prices: str) -> Iterable[Text]:
    """Write all about one node."""
    stay, labels = story.stay, story.labels
    yield Text(f"Node {stay.node} {_verb(stay)}: {stay.because}.", style="bold")
    if stay.blocker is not None:
        yield Text(f"Who could change that: {stay.blocker}")
    yield Text(f"It costs {_per_hour(stay.price)}." if stay.price else "Its price is not known.")
    if stay.saving:
        yield Text(f"When it goes, {_per_hour(stay.saving)} are saved.")
    told = [
        labels.get(key, "")
        for key in (label_keys.INSTANCE_TYPE, label_keys.CAPACITY_TYPE, label_keys.ZONE)
    ]
    yield Text(
        f"{' '.join(filter(None, told))}; NodePool {story.nodepool or '-'}, "
        f"NodeClaim {story.claim or '-'}"
    )
    room = ", ".join(
        f"{story.free.get(name, '0')} of {amount} {name} free"
        for name, amount in sorted(story.allocatable.items())
        if name in ("cpu", "memory", "pods")
    )
    yield Text(room)
    named = ", ".join(story.pods[:_SHOWN_PODS])
    more = len(story.pods) - _SHOWN_PODS
    yield Text(
        f"{len(story.pods)} pods would need another node"
        + (f": {named}" if named else "")
        + (f" and {more} more" if more > 0 else "")
        + (f"; {story.others} would not" if story.others else "")
    )
    yield _about(prices)


def pod_lines(story: PodStory, prices: str) -> Iterable[Text]:
    """Write all about one pod."""
    yield Text(f"Pod {story.pod} {_where(story)}.", style="bold")
    for refusal in story.refusals:
        whose = f"NodePool {refusal.nodepool}" if refusal.nodepool else "No NodePool"
        yield Text(f"  {whose}: {refusal.message}")
    if story.protected:
        yield Text(f"It has the annotation {label_keys.DO_NOT_DISRUPT}: nobody evicts it.")
    for name in story.blocking:
        yield Text(f"PodDisruptionBudget {name} lets nobody evict it now.")
    allowing = [one for one in story.budgets if one not in story.blocking]
    if allowing:
        yield Text(f"PodDisruptionBudgets that allow it: {', '.join(allowing)}")
    if story.stay is not None:
        yield Text(f"Its node {_verb(story.stay)}: {story.stay.because}.")
        if story.stay.price:
            yield Text(f"That costs {_per_hour(story.stay.price)}.")
    if story.new:
        yield _about(prices)


def blocker_lines(told: Blockers, prices: str) -> Iterable[Text]:
    """Write who holds how many dollars."""
    if told.blockers:
        rows = [
            [
                _money(one.price),
                "-" if one.saving is None else _money(one.saving),
                str(len(one.nodes)),
                str(one.blocker),
                one.because,
            ]
            for one in told.blockers
        ]
        head = ["HELD $/HOUR", "COULD SAVE", "NODES", "BLOCKER", "BECAUSE"]
        header, *lines = columns([head, *rows], frozenset({0, 1, 2}))
        yield Text(header, style="bold")
        yield from (Text(line) for line in lines)
        yield Text()
    else:
        yield Text("Nobody keeps a node from being given back.")
    yield Text(
        f"{told.nodes:,} nodes, {_per_hour(told.price)}; "
        f"{_per_hour(told.saving)} of it can be saved as things are.",
        style="bold",
    )
    yield _about(prices)


def _where(story: PodStory) -> str:
    if story.node:
        return f"is on node {story.node}"
    if not story.waiting:
        return "asks for no node now: it has ended, is going, or kube-scheduler has not tried it"
    if story.claim:
        return f"waits for the node of NodeClaim {story.claim}, which was made for it"
    if story.existing:
        return f"has room on {story.existing}, and waits for kube-scheduler to put it there"
    if story.new:
        return (
            f"would get a new {story.new} of NodePool {story.new_nodepool} "
            f"for {_per_hour(story.new_price)}"
        )
    return "can get no node"


def _verb(stay: Stay) -> str:
    return "goes" if stay.code == "goes" else "stays"


def _price(stay: Stay) -> str:
    return _money(stay.price) if _is_priced(stay) else "-"


def _is_priced(stay: Stay) -> bool:
    """Tell whether zero would be a price: reserved machines have that one, others none."""
    return bool(stay.price) or stay.code not in ("unmanaged", "no-price", "unfit")


def _money(price: float) -> str:
    return f"{price:,.4f}"


def _per_hour(price: float) -> str:
    return f"${price:,.4f} per hour (${price * HOURS_PER_MONTH:,.0f} a month)"


def _about(prices: str) -> Text:
    return Text(f"Prices: {prices}.", style="dim")
