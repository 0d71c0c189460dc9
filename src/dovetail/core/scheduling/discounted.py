"""Plans with discounts: solved at marginal prices, reported as billed."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from dovetail.core.instancetypes.billing import Bill, Share, UsageKey
from dovetail.core.instancetypes.discounts import Discounts, ListPrices, OfferingKey, offering_key
from dovetail.core.scheduling.pods.pending import find_pods_to_schedule
from dovetail.core.scheduling.snapshot_update import add_placements, add_planned_nodes, pin_offering
from dovetail.core.scheduling.solver import solve
from dovetail.model.frozen import FrozenDict
from dovetail.model.plan import Plan, PlannedNode
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot

# Instances, or USD per hour: smaller differences are rounding errors.
_EPSILON: Final = 1e-9
# Rounds of planning with commitments; each is a full solve.
_MAX_ROUNDS: Final = 5


class BilledPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan at billed prices, and its effect on commitments."""

    plan: Plan
    """The price of each node is its share of the bill."""
    list_price: float
    """USD per hour of all new nodes, before any discount."""
    committed_cost: float
    """USD per hour of all commitments, used or not."""
    used_by_existing: float
    """USD per hour of commitments that existing nodes use."""
    used_by_new: float
    """USD per hour of commitments that new nodes use."""

    @property
    def added_cost(self) -> float:
        """USD per hour in addition to the commitments."""
        return self.plan.price - self.used_by_new


def solve_discounted(
    snapshot: ClusterSnapshot, settings: SchedulingSettings, discounts: Discounts
) -> BilledPlan:
    """Return the plan that adds least to the bill; ``snapshot`` has list prices.

    The solver has one price per offering, but a commitment covers a limited amount.
    So it plans twice: as if commitments were used up, and in rounds as if they
    covered everything. In rounds, the nodes that they cover stay, and the rest is
    planned again at the remaining prices. The plan that adds least is returned.
    """
    prices = ListPrices(snapshot.instance_types.values())
    existing = Counter(offering_key(node.labels) for node in snapshot.nodes)
    existing_bill = discounts.bill(prices.usage(existing))
    remaining_discounts = discounts.remaining_after(existing_bill)
    plans = [solve(_with_discounted_prices(snapshot, discounts, None), settings)]
    if discounts.has_commitments:
        rounds = _MAX_ROUNDS if _is_separable(snapshot, settings) else 1
        plans.append(_solve_in_rounds(snapshot, settings, remaining_discounts, prices, rounds))
    return min(
        (_bill_plan(plan, remaining_discounts, existing_bill, prices) for plan in plans),
        key=lambda billed: (
            len(billed.plan.unschedulable),
            round((billed.added_cost + billed.plan.node_cost) / _EPSILON),
            billed.plan.price,
        ),
    )


def _solve_in_rounds(
    snapshot: ClusterSnapshot,
    settings: SchedulingSettings,
    discounts: Discounts,
    prices: ListPrices,
    rounds: int,
) -> Plan:
    """Plan nodes that commitments cover, then the rest; ``discounts`` are unused ones."""
    fixed_nodes: list[PlannedNode] = []
    discounts_left = discounts
    for round_number in range(rounds):
        # Nodes of the last round beyond the commitment are not covered: use full prices.
        bill = None if 0 < round_number == rounds - 1 else discounts_left.bill({})
        with_fixed = add_planned_nodes(snapshot, fixed_nodes)
        plan = solve(_with_discounted_prices(with_fixed, discounts_left, bill), settings)
        fixed_nodes = add_placements(fixed_nodes, plan)
        covered, uncovered = _split_by_coverage(plan.nodes, discounts_left, prices)
        if not covered or not uncovered or round_number == rounds - 1:
            break
        fixed_nodes += [pin_offering(node) for node in covered]
        discounts_left = discounts.remaining_after(
            discounts.bill(prices.usage(Counter(map(_offering_key_of, fixed_nodes))))
        )
    names = {node.name for node in fixed_nodes}
    return msgspec.structs.replace(
        plan,
        nodes=(*fixed_nodes, *plan.nodes),
        existing=tuple(placement for placement in plan.existing if placement.node not in names),
    )


def _is_separable(snapshot: ClusterSnapshot, settings: SchedulingSettings) -> bool:
    """Return True if no pod depends on others, so that rounds are independent."""
    return not settings.default_spreads and not any(
        pod.spec.spreads or pod.spec.affinity or pod.spec.anti_affinity or pod.spec.volumes
        for pod in find_pods_to_schedule(snapshot)
    )


def _split_by_coverage(
    nodes: Iterable[PlannedNode], discounts: Discounts, prices: ListPrices
) -> tuple[list[PlannedNode], list[PlannedNode]]:
    """Return the nodes that commitments cover completely, and the others."""
    usage_keys = [(node, prices.usage_key(_offering_key_of(node))) for node in nodes]
    bill = discounts.bill(Counter(usage_key for _, usage_key in usage_keys if usage_key is not None))
    covered_amounts: dict[UsageKey, float] = {}
    for share in bill.shares:
        if share.covered_by:
            covered_amounts[share.usage_key] = covered_amounts.get(share.usage_key, 0.0) + share.amount
    covered, uncovered = [], []
    for node, usage_key in usage_keys:
        if usage_key is not None and covered_amounts.get(usage_key, 0.0) > 1 - _EPSILON:
            covered_amounts[usage_key] -= 1
            covered.append(node)
        else:
            uncovered.append(node)
    return covered, uncovered


def _with_discounted_prices(snapshot: ClusterSnapshot, book: Discounts, bill: Bill | None) -> ClusterSnapshot:
    # NodePools of one node class share one tuple; keep that, it is a cache key.
    discounted = {id(types): book.apply(types, bill) for types in snapshot.instance_types.values()}
    types = {pool: discounted[id(types)] for pool, types in snapshot.instance_types.items()}
    return msgspec.structs.replace(snapshot, instance_types=FrozenDict(types))


def _bill_plan(plan: Plan, discounts: Discounts, existing_bill: Bill, prices: ListPrices) -> BilledPlan:
    usage_keys = [prices.usage_key(_offering_key_of(node)) for node in plan.nodes]
    bill = discounts.bill(Counter(usage_key for usage_key in usage_keys if usage_key is not None))
    share_queue = _ShareQueue(bill.shares)
    nodes = tuple(
        node if usage_key is None else _with_price(node, share_queue.take_instance(usage_key))
        for node, usage_key in zip(plan.nodes, usage_keys, strict=True)
    )
    unbilled = sum(node.price for node, key in zip(plan.nodes, usage_keys, strict=True) if key is None)
    return BilledPlan(
        plan=msgspec.structs.replace(plan, nodes=nodes),
        list_price=bill.list_price + unbilled,
        committed_cost=existing_bill.committed,
        used_by_existing=existing_bill.used,
        used_by_new=bill.used,
    )


class _ShareQueue:
    """Shares of a bill, assigned to one instance after the other."""

    def __init__(self, shares: Iterable[Share]) -> None:
        self._remaining: dict[UsageKey, list[tuple[float, float]]] = {}
        for share in shares:
            self._remaining.setdefault(share.usage_key, []).append((share.amount, share.price))

    def take_instance(self, usage_key: UsageKey) -> float:
        """Return the price of the next instance; it may consist of several shares."""
        missing, price_paid = 1.0, 0.0
        queue = self._remaining[usage_key]
        while missing > _EPSILON and queue:
            amount, price = queue.pop(0)
            used = min(missing, amount)
            missing, price_paid = missing - used, price_paid + used * price
            if amount > used:
                queue.insert(0, (amount - used, price))
        return price_paid


def _with_price(node: PlannedNode, price: float) -> PlannedNode:
    offering = msgspec.structs.replace(node.offering, price=price)
    return msgspec.structs.replace(node, offering=offering)


def _offering_key_of(node: PlannedNode) -> OfferingKey:
    return (node.instance_type.name, node.offering.zone, node.offering.capacity_type)
