"""Prices of nodes outside the offerings of a NodePool."""

from collections.abc import Callable, Iterable
from operator import is_not

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


class OfferingPrices:
    """Prices in the offerings of all NodePools; a ``FindPrice``."""

    def __init__(self, get_types: Callable[[], Iterable[tuple[InstanceType, ...]]]) -> None:
        self._get_types = get_types
        self._source: tuple[tuple[InstanceType, ...], ...] = ()
        self._prices: dict[tuple[str, str, str], float] = {}

    def __call__(self, instance_type: str, zone: str, capacity_type: str) -> float | None:
        """Return the price of an offering; a node without capacity type counts as on-demand."""
        source = tuple(self._get_types())
        if len(source) != len(self._source) or any(map(is_not, source, self._source)):
            self._source = source
            self._prices = {
                (listed.name, offering.zone, offering.capacity_type): offering.price
                for types in source
                for listed in types
                for offering in listed.offerings
                if offering.price == offering.price  # NaN: without a price.
            }
        return self._prices.get((instance_type, zone, capacity_type or label_keys.ON_DEMAND))
