"""The plan as the document that ``simulate -o json`` prints.

Field names are a promise to scripts: add, never rename.
"""

from typing import Any

import msgspec
import yaml

from dovetail.model.plan import Plan, PlannedNode, Unplaced

HOURS_PER_MONTH = 730
"""A twelfth of a year, as AWS counts it in its own estimates."""


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """A node that would be bought."""

    name: str
    nodepool: str
    instance_type: str
    alternatives: list[str]
    """Other types that would do, cheapest first."""
    zone: str
    capacity_type: str
    price_per_hour: float
    pods: list[str]
    requested: dict[str, str]
    """By its pods and the DaemonSets that come along, as Kubernetes quantities."""
    allocatable: dict[str, str]


class ExistingReport(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is there already, and the waiting pods it takes."""

    node: str
    pods: list[str]


class RefusalReport(msgspec.Struct, frozen=True, kw_only=True):
    """Why one NodePool has no node for a pod; no name: no pool could help."""

    nodepool: str
    constraint: str
    message: str


class UnplacedReport(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that gets no node."""

    pod: str
    refusals: list[RefusalReport]


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """New nodes and what they cost; pods placed, on new and existing nodes."""

    nodes: int
    pods: int
    price_per_hour: float
    price_per_month: float


class PriceSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where the prices come from and of which day they are."""

    source: str
    date: str


class DiscountsReport(msgspec.Struct, frozen=True, kw_only=True):
    """What discounts did to the prices above; dollars are USD per hour."""

    source: str
    list_price_per_hour: float
    """Of the new nodes, without any discount."""
    committed_per_hour: float
    """Paid whatever runs."""
    committed_used_before: float
    """… used by the nodes that are there,"""
    committed_used: float
    """… and by the new ones."""


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The whole answer; ``discounts`` only where there are some."""

    nodes: list[NodeReport]
    existing: list[ExistingReport]
    unplaced: list[UnplacedReport]
    totals: Totals
    prices: PriceSource
    discounts: DiscountsReport | None = None


def report_on(plan: Plan, prices: PriceSource, discounts: DiscountsReport | None = None) -> Report:
    """Write a plan down as plain data."""
    alternatives: dict[int, list[str]] = {}
    return Report(
        nodes=[_node(node, alternatives) for node in plan.nodes],
        existing=[
            ExistingReport(node=one.node, pods=[pod.key for pod in one.pods])
            for one in plan.existing
        ],
        unplaced=[_unplaced(one) for one in plan.unplaced],
        totals=totals_of(plan),
        prices=prices,
        discounts=discounts,
    )


def totals_of(plan: Plan) -> Totals:
    """Add the plan up."""
    on_new = sum(len(node.pods) for node in plan.nodes)
    on_existing = sum(len(one.pods) for one in plan.existing)
    return Totals(
        nodes=len(plan.nodes),
        pods=on_new + on_existing,
        price_per_hour=round(plan.price, 6),
        price_per_month=round(plan.price * HOURS_PER_MONTH, 2),
    )


def as_json(report: Report) -> str:
    """Write a report as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()


def as_yaml(report: Report) -> str:
    """Write a report as YAML, in the order of the JSON."""
    text: str = yaml.dump(
        msgspec.to_builtins(report),
        Dumper=_WithoutAliases,
        sort_keys=False,
        allow_unicode=True,
    )
    return text.rstrip("\n")


class _WithoutAliases(yaml.CSafeDumper):
    """Writes shared lists out in full: ``*id001`` helps nobody who reads a plan."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _node(node: PlannedNode, alternatives: dict[int, list[str]]) -> NodeReport:
    # Nodes that were bought alike share one sequence of hundreds of types: name it once.
    names = alternatives.get(id(node.instance_types))
    if names is None:
        names = [one.name for one in node.instance_types[1:]]
        alternatives[id(node.instance_types)] = names
    return NodeReport(
        name=node.name,
        nodepool=node.nodepool,
        instance_type=node.instance_type.name,
        alternatives=names,
        zone=node.offering.zone,
        capacity_type=node.offering.capacity_type,
        price_per_hour=round(node.price, 6),
        pods=[pod.key for pod in node.pods],
        requested=node.requested.spelled(),
        allocatable=node.instance_type.allocatable.without_zeros().spelled(),
    )


def _unplaced(one: Unplaced) -> UnplacedReport:
    return UnplacedReport(
        pod=one.pod.key,
        refusals=[
            RefusalReport(
                nodepool=refusal.nodepool,
                constraint=refusal.constraint.value,
                message=refusal.message,
            )
            for refusal in one.refusals
        ],
    )
