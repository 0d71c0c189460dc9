"""Prices of nodes outside the offerings of a NodePool."""

from collections.abc import Callable, Mapping

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.cloud.prices import PriceBook

FindPrice = Callable[[str, str, str], float | None]
"""Instance type, zone, capacity type → price per hour; None: unknown."""


def no_price(instance_type: str, zone: str, capacity_type: str) -> None:
    """Return None: no price is known."""


def find_in_book(book: PriceBook, region: str) -> FindPrice:
    """Return a lookup in a price book; a node without capacity type counts as on-demand."""

    def find(instance_type: str, zone: str, capacity_type: str) -> float | None:
        if capacity_type == label_keys.SPOT:
            return book.spot(instance_type, region=region, zone=zone)
        return book.on_demand(instance_type, region)

    return find


def find_in_types(types: Mapping[str, tuple[InstanceType, ...]]) -> FindPrice:
    """Return a lookup in the offerings of all NodePools."""
    prices: dict[tuple[str, str, str], float] = {}
    for pool_types in types.values():
        for instance_type in pool_types:
            for offering in instance_type.offerings:
                if offering.price == offering.price:  # NaN: without a price.
                    key = (instance_type.name, offering.zone, offering.capacity_type)
                    prices.setdefault(key, offering.price)

    def find(instance_type: str, zone: str, capacity_type: str) -> float | None:
        return prices.get((instance_type, zone, capacity_type or label_keys.ON_DEMAND))

    return find
