"""Prices of nodes outside the offerings of a NodePool."""

from collections.abc import Callable, Iterable
from operator import is_not

from dovetail.core.cost.node_prices import NodePrices, get_capacity_type
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.node import Node

FindPrice = Callable[[Node], float | None]
"""Node → price per hour; None: unknown."""


def no_price(node: Node) -> None:
    """Return None: no price is known."""


def find_by_labels(prices: NodePrices) -> FindPrice:
    """Return a lookup by the labels of nodes; that of a Fargate node depends on its pod."""
    return lambda node: prices.price(node, node.pods).price


class OfferingPrices:
    """Prices in the offerings of all NodePools; a ``FindPrice``."""

    def __init__(self, get_types: Callable[[], Iterable[tuple[InstanceType, ...]]]) -> None:
        self._get_types = get_types
        self._source: tuple[tuple[InstanceType, ...], ...] = ()
        self._prices: dict[tuple[str, str, str], float] = {}

    def __call__(self, node: Node) -> float | None:
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
        label = node.labels.get
        capacity_type, _ = get_capacity_type(node.labels)
        return self._prices.get(
            (label(label_keys.INSTANCE_TYPE, ""), label(label_keys.ZONE, ""), capacity_type)
        )
