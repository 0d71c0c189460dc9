"""JSON and YAML output of ``simulate``.

Field names are stable: add, never rename.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import yaml

from dovetail.model.cloud.prices import USD, PriceBook, currency_of
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.quantity import format_amount
from dovetail.model.kube.resources import CPU
from dovetail.model.labels import SPOT
from dovetail.model.plan import Plan, PlannedNode, UnschedulablePod

HOURS_PER_MONTH = 730
"""A twelfth of a year, as AWS counts it in its own estimates."""


class BurstableReport(msgspec.Struct, frozen=True, kw_only=True):
    """CPU credits of a new node."""

    policy: str
    unlimited: bool
    """False in standard mode."""
    expected_cpu: str
    """Requests of all pods and what is reserved for the system, as a quantity."""
    baseline_cpu: str
    """CPU that the list price includes, as a quantity."""
    surplus_per_hour: float
    """Part of ``price_per_hour``."""
    baseline_assumed: bool
    """True if AWS has published no baseline of the type."""
    note: str


class NodeReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A new node."""

    name: str
    nodepool: str
    instance_type: str
    alternatives: list[str]
    """Alternative types, cheapest first."""
    zone: str
    capacity_type: str
    price_per_hour: float
    pods: list[str]
    requested: dict[str, str]
    """Requests of its pods and DaemonSets, as Kubernetes quantities."""
    allocatable: dict[str, str]
    price_estimated: bool
    """True if the price follows from other types or another region."""
    node_cost_per_hour: float
    """USD beyond the instance."""
    burstable: BurstableReport | None = None
    """Only of burstable types."""


class ExistingReport(msgspec.Struct, frozen=True, kw_only=True):
    """An existing node and the pending pods that fit on it."""

    node: str
    pods: list[str]


class RefusalReport(msgspec.Struct, frozen=True, kw_only=True):
    """Reason of one NodePool; an empty name if no NodePool could help."""

    nodepool: str
    constraint: str
    message: str


class UnplacedReport(msgspec.Struct, frozen=True, kw_only=True):
    """An unschedulable pod."""

    pod: str
    refusals: list[RefusalReport]


class JobHours(msgspec.Struct, frozen=True):
    """Hours that Jobs run: their deadlines, else an assumption."""

    assumed: float = 1.0
    seconds: FrozenDict[tuple[str, str], int] = FrozenDict()
    """Namespace and name of a Job → deadline."""

    def of(self, pod: Pod) -> float:
        """Return the hours that a pod of a Job runs, at most."""
        name = pod.owner.name if pod.owner is not None else ""
        seconds = self.seconds.get((pod.namespace, name))
        return self.assumed if seconds is None else seconds / 3600


DEFAULT_JOB_HOURS: Final = JobHours()


class JobTotals(msgspec.Struct, frozen=True, kw_only=True):
    """New nodes that run pods of Jobs only, and end with them."""

    nodes: int
    price_per_hour: float
    """USD of the instances."""
    hours: float
    """Longest time that one of the nodes runs."""
    price_per_run: float
    """USD of the instances until the Jobs end."""


class Totals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """New nodes and what they cost; pods placed, on new and existing nodes.

    Amounts per month leave out nodes of Jobs.
    """

    nodes: int
    pods: int
    price_per_hour: float
    """USD of the instances."""
    price_per_month: float
    node_cost_per_hour: float
    """USD of the nodes beyond their instances."""
    cost_per_hour: float
    """USD of instances and node costs."""
    cost_per_month: float
    jobs: JobTotals | None = None


class PriceSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Source and date of the prices, and how those of the region are estimated."""

    source: str
    date: str
    currency: str = USD
    estimated_from: str = ""
    """Region whose list prices are used; only if there are none of the region itself."""
    region_factor: float | None = None
    """Factor on prices of ``estimated_from``."""
    factor_assumed: bool = False
    """True if no factor is known for the region."""


def price_source(prices: PriceBook, region: str) -> PriceSource:
    """Return the source of a region's prices."""
    estimate = prices.region_estimate(region)
    return PriceSource(
        source=prices.source,
        date=prices.date,
        currency=currency_of(region),
        estimated_from=estimate.region if estimate else "",
        region_factor=estimate.factor if estimate else None,
        factor_assumed=estimate.is_assumed if estimate else False,
    )


class DiscountsReport(msgspec.Struct, frozen=True, kw_only=True):
    """Effect of discounts, in USD per hour."""

    source: str
    list_price_per_hour: float
    """List price of the new nodes."""
    committed_per_hour: float
    """All commitments."""
    committed_used_before: float
    """Part used by existing nodes."""
    committed_used: float
    """Part used by new nodes."""


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The report; ``discounts`` only with a discounts file."""

    nodes: list[NodeReport]
    existing: list[ExistingReport]
    unplaced: list[UnplacedReport]
    totals: Totals
    prices: PriceSource
    discounts: DiscountsReport | None = None


def report_on(
    plan: Plan,
    prices: PriceBook,
    region: str,
    discounts: DiscountsReport | None = None,
    *,
    job_hours: JobHours = DEFAULT_JOB_HOURS,
) -> Report:
    """Return the report of a plan."""
    alternatives: dict[int, list[str]] = {}
    return Report(
        nodes=[_node(node, alternatives, has_estimated_price(node, prices, region)) for node in plan.nodes],
        existing=[
            ExistingReport(node=existing.node, pods=[pod.key for pod in existing.pods])
            for existing in plan.existing
        ],
        unplaced=[_unplaced(unschedulable) for unschedulable in plan.unschedulable],
        totals=totals_of(plan, job_hours),
        prices=price_source(prices, region),
        discounts=discounts,
    )


def has_estimated_price(node: PlannedNode, prices: PriceBook, region: str) -> bool:
    """Return True if the price of a new node follows from other types or another region."""
    return prices.is_estimated(
        node.instance_type.name,
        region,
        zone=node.offering.zone,
        zone_id=node.offering.zone_id,
        is_spot=node.offering.capacity_type == SPOT,
    )


def totals_of(plan: Plan, job_hours: JobHours = DEFAULT_JOB_HOURS) -> Totals:
    """Add the plan up."""
    job_nodes = [node for node in plan.nodes if is_job_node(node)]
    price = plan.price - sum(node.price for node in job_nodes)
    cost = plan.cost - sum(node.cost for node in job_nodes)
    on_new = sum(len(node.pods) for node in plan.nodes)
    on_existing = sum(len(existing.pods) for existing in plan.existing)
    return Totals(
        nodes=len(plan.nodes),
        pods=on_new + on_existing,
        price_per_hour=round(plan.price, 6),
        price_per_month=round(price * HOURS_PER_MONTH, 2),
        node_cost_per_hour=round(plan.node_cost, 6),
        cost_per_hour=round(plan.cost, 6),
        cost_per_month=round(cost * HOURS_PER_MONTH, 2),
        jobs=_job_totals(job_nodes, job_hours) if job_nodes else None,
    )


def is_job_node(node: PlannedNode) -> bool:
    """Return True if a new node is only for pods of Jobs."""
    return bool(node.pods) and all(map(is_job_pod, node.pods))


def is_job_pod(pod: Pod) -> bool:
    """Return True if a pod belongs to a Job."""
    return pod.owner is not None and pod.owner.kind == "Job"


def _job_totals(nodes: Sequence[PlannedNode], job_hours: JobHours) -> JobTotals:
    hours = [max(job_hours.of(pod) for pod in node.pods) for node in nodes]
    prices = [node.price * duration for node, duration in zip(nodes, hours, strict=True)]
    return JobTotals(
        nodes=len(nodes),
        price_per_hour=round(sum(node.price for node in nodes), 6),
        hours=round(max(hours), 4),
        price_per_run=round(sum(prices), 6),
    )


def as_json(report: Report) -> str:
    """Write a report as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()


def as_yaml(report: Report) -> str:
    """Return the report as YAML, with the field order of the JSON."""
    text: str = yaml.dump(
        msgspec.to_builtins(report), Dumper=_WithoutAliases, sort_keys=False, allow_unicode=True
    )
    return text.rstrip("\n")


class _WithoutAliases(yaml.CSafeDumper):
    """Writes shared lists in full instead of as YAML aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _node(node: PlannedNode, alternatives: dict[int, list[str]], price_estimated: bool) -> NodeReport:
    # Equal nodes share one sequence of hundreds of types: convert it once.
    names = alternatives.get(id(node.instance_types))
    if names is None:
        names = [instance_type.name for instance_type in node.instance_types[1:]]
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
        requested=node.requested.to_quantities(),
        allocatable=node.instance_type.allocatable.without_zeros().to_quantities(),
        price_estimated=price_estimated,
        node_cost_per_hour=round(node.node_cost, 6),
        burstable=_burstable(node),
    )


def _burstable(node: PlannedNode) -> BurstableReport | None:
    cpu_credits = node.instance_type.cpu_credits
    if cpu_credits is None:
        return None
    return BurstableReport(
        policy=cpu_credits.policy.value,
        unlimited=cpu_credits.is_unlimited,
        expected_cpu=format_amount(CPU, node.expected_cpu),
        baseline_cpu=format_amount(CPU, cpu_credits.baseline),
        surplus_per_hour=round(node.surplus_price, 6),
        baseline_assumed=cpu_credits.is_assumed,
        note=node.describe_burstable(),
    )


def _unplaced(unschedulable: UnschedulablePod) -> UnplacedReport:
    return UnplacedReport(
        pod=unschedulable.pod.key,
        refusals=[
            RefusalReport(
                nodepool=reason.nodepool, constraint=reason.constraint.value, message=reason.message
            )
            for reason in unschedulable.reasons
        ],
    )
