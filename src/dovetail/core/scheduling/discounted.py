"""Plans under discounts: decided by what they add to the bill, told at their rates."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from dovetail.core.instancetypes.billing import Bill, Lot, Share
from dovetail.core.instancetypes.discounts import Discounts, ListPrices, Place, place_of
from dovetail.core.scheduling.pods.pending import wanting
from dovetail.core.scheduling.snapshot_update import bound, with_bought, with_placements
from dovetail.core.scheduling.solver import solve
from dovetail.model.frozen import FrozenDict
from dovetail.model.plan import Plan, PlannedNode
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot

_SAME: Final = 1e-9
_MOST_ROUNDS: Final = 5


class Afforded(msgspec.Struct, frozen=True, kw_only=True):
    """A plan at the prices that are paid, and what it does to commitments."""

    plan: Plan
    """Each node's price is its share of the bill."""
    list_price: float
    """USD per hour of all new nodes, before any discount."""
    committed: float
    """USD per hour that are paid whatever runs."""
    used_before: float
    """… of which the nodes that are there use so much,"""
    used: float
    """and the new ones so much."""

    @property
    def added(self) -> float:
        """USD per hour that come on top of what is paid anyway."""
        return self.plan.price - self.used


def solve_discounted(
    snapshot: ClusterSnapshot, settings: SchedulingSettings, discounts: Discounts
) -> Afforded:
    """Plan at discounted prices; ``snapshot`` has the list prices.

    The solver knows one price per offering, but a commitment ends somewhere. So
    it plans as if commitments were used up, as if they covered everything, and
    in rounds: what they cover of a plan stays, the rest is planned again at the
    prices after that. The plan is taken that adds least to the bill.
    """
    prices = ListPrices(snapshot.instance_types.values())
    running = discounts.bill(
        prices.usage(Counter(place_of(node.labels) for node in snapshot.nodes))
    )
    free = discounts.after(running)
    plans = [solve(_repriced(snapshot, discounts, None), settings)]
    if discounts.has_commitments:
        rounds = _MOST_ROUNDS if _is_divisible(snapshot, settings) else 1
        plans.append(_in_rounds(snapshot, settings, free, prices, rounds))
    return min(
        (_afforded(plan, free, running, prices) for plan in plans),
        key=lambda one: (len(one.plan.unplaced), round(one.added / _SAME), one.plan.price),
    )


def _in_rounds(
    snapshot: ClusterSnapshot,
    settings: SchedulingSettings,
    discounts: Discounts,
    prices: ListPrices,
    rounds: int,
) -> Plan:
    """Buy what commitments cover first, then the rest; ``discounts`` are what is left of them."""
    kept: list[PlannedNode] = []
    before = discounts
    for number in range(rounds):
        # What the last round buys beyond the ceiling is not covered: it had better know.
        bill = None if 0 < number == rounds - 1 else before.bill({})
        plan = solve(_repriced(with_bought(snapshot, kept), before, bill), settings)
        kept = with_placements(kept, plan)
        covered, others = _sorted_out(plan.nodes, before, prices)
        if not covered or not others or number == rounds - 1:
            break
        kept += [bound(node) for node in covered]
        before = discounts.after(discounts.bill(prices.usage(Counter(map(_place_of, kept)))))
    names = {node.name for node in kept}
    return msgspec.structs.replace(
        plan,
        nodes=(*kept, *plan.nodes),
        existing=tuple(one for one in plan.existing if one.node not in names),
    )


def _is_divisible(snapshot: ClusterSnapshot, settings: SchedulingSettings) -> bool:
    """Tell whether no pod looks at where others are, so that all need not be planned at once."""
    return not settings.default_spreads and not any(
        pod.spec.spreads or pod.spec.affinity or pod.spec.anti_affinity or pod.spec.volumes
        for pod in wanting(snapshot)
    )


def _sorted_out(
    nodes: Iterable[PlannedNode], discounts: Discounts, prices: ListPrices
) -> tuple[list[PlannedNode], list[PlannedNode]]:
    """Return the nodes that commitments pay whole, and the others."""
    lots = [(node, prices.lot(_place_of(node))) for node in nodes]
    bill = discounts.bill(Counter(lot for _, lot in lots if lot is not None))
    paid: dict[Lot, float] = {}
    for share in bill.shares:
        if share.by:
            paid[share.lot] = paid.get(share.lot, 0.0) + share.amount
    covered, others = [], []
    for node, lot in lots:
        if lot is not None and paid.get(lot, 0.0) > 1 - _SAME:
            paid[lot] -= 1
            covered.append(node)
        else:
            others.append(node)
    return covered, others


def _repriced(
    snapshot: ClusterSnapshot, discounts: Discounts, bill: Bill | None
) -> ClusterSnapshot:
    # Pools of one class share one tuple, and shall go on doing so.
    done = {id(types): discounts.applied(types, bill) for types in snapshot.instance_types.values()}
    types = {pool: done[id(types)] for pool, types in snapshot.instance_types.items()}
    return msgspec.structs.replace(snapshot, instance_types=FrozenDict(types))


def _afforded(plan: Plan, free: Discounts, running: Bill, prices: ListPrices) -> Afforded:
    lots = [prices.lot(_place_of(node)) for node in plan.nodes]
    bill = free.bill(Counter(lot for lot in lots if lot is not None))
    purse = _Purse(bill.shares)
    nodes = tuple(
        node if lot is None else _at_price(node, purse.pay(lot))
        for node, lot in zip(plan.nodes, lots, strict=True)
    )
    unbilled = sum(node.price for node, lot in zip(plan.nodes, lots, strict=True) if lot is None)
    return Afforded(
        plan=msgspec.structs.replace(plan, nodes=nodes),
        list_price=bill.list_price + unbilled,
        committed=running.committed,
        used_before=running.used,
        used=bill.used,
    )


class _Purse:
    """Shares of a bill, handed out instance by instance."""

    def __init__(self, shares: Iterable[Share]) -> None:
        self._left: dict[Lot, list[tuple[float, float]]] = {}
        for one in shares:
            self._left.setdefault(one.lot, []).append((one.amount, one.price))

    def pay(self, lot: Lot) -> float:
        """Return the price of the next instance, of several shares where one ends in it."""
        wanted, cost = 1.0, 0.0
        queue = self._left[lot]
        while wanted > _SAME and queue:
            amount, price = queue.pop(0)
            taken = min(wanted, amount)
            wanted, cost = wanted - taken, cost + taken * price
            if amount > taken:
                queue.insert(0, (amount - taken, price))
        return cost


def _at_price(node: PlannedNode, price: float) -> PlannedNode:
    offering = msgspec.structs.replace(node.offering, price=price)
    return msgspec.structs.replace(node, offering=offering)


def _place_of(node: PlannedNode) -> Place:
    return (node.instance_type.name, node.offering.zone, node.offering.capacity_type)
