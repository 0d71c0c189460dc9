"""Orders whose answer got lost, to be made again word for word."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dovetail.aws.instance.fleet_request import Plan, Purchase
from dovetail.model.karpenter.nodeclaim import NodeClaim


class LostOrder(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A request that EC2 may have followed, with its token: repeated, it buys nothing again."""

    plan: Plan
    request: Mapping[str, Any]
    token: str


class LostOrders:
    """Which claims such orders were for, and what they turned out to have bought.

    EC2 answers a token that it knows as it did the first time, at once, while a
    new machine may be missing from its lists for seconds: so nothing is bought
    again because it does not show yet.
    """

    def __init__(self) -> None:
        self._orders: dict[str, LostOrder] = {}
        self._late: dict[str, Purchase] = {}

    def concerns(self, claim: NodeClaim) -> bool:
        """Tell whether something may have been bought for a claim that way."""
        return claim.uid in self._orders or claim.uid in self._late

    def add(self, order: LostOrder) -> None:
        self._orders |= {claim.uid: order for claim in order.plan.claims}

    def of(self, claims: Iterable[NodeClaim]) -> list[LostOrder]:
        """Return the orders that any of the claims waits for, each once."""
        found = (self._orders.get(claim.uid) for claim in claims)
        return list(dict.fromkeys(one for one in found if one is not None))

    def settle(self, order: LostOrder, purchases: Iterable[Purchase]) -> bool:
        """Take what an order has bought, for whom it was; False if that is known already."""
        waiting = [one for one in order.plan.claims if self._orders.get(one.uid) is order]
        if not waiting:
            return False
        for claim in waiting:
            del self._orders[claim.uid]
        bought = zip(order.plan.claims, purchases, strict=False)
        self._late |= {claim.uid: one for claim, one in bought}
        return True

    def take(self, claim: NodeClaim) -> Purchase | None:
        """Return what was bought for a claim; only once."""
        return self._late.pop(claim.uid, None)
