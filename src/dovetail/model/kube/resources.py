"""Amounts of resources: exact integers, missing means none."""

from collections.abc import Iterable, Mapping

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.quantity import format_amount, parse_amount

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
EPHEMERAL_STORAGE = "ephemeral-storage"
NODES = "nodes"
HUGEPAGES_PREFIX = "hugepages-"


class Resources(FrozenDict[str, int]):
    """Resource name → amount; CPU in millicores, all else in whole units.

    Amounts of zero may be present (a node that says it has no GPU) or absent;
    arithmetic treats both alike.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, spelled: Mapping[str, str | int | float]) -> "Resources":
        """Read a Kubernetes resource list; raises ``ValueError`` naming the resource."""
        amounts: dict[str, int] = {}
        for name, text in spelled.items():
            try:
                amounts[name] = parse_amount(name, text)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return cls(amounts)

    def spelled(self) -> dict[str, str]:
        """Write it as a Kubernetes resource list, sorted by name."""
        return {name: format_amount(name, self[name]) for name in sorted(self)}

    def __add__(self, other: Mapping[str, int]) -> "Resources":
        if not other:
            return self
        total = dict(self)
        for name, amount in other.items():
            total[name] = total.get(name, 0) + amount
        return Resources(total)

    def __sub__(self, other: Mapping[str, int]) -> "Resources":
        left = dict(self)
        for name, amount in other.items():
            left[name] = left.get(name, 0) - amount
        return Resources(left)

    def at_least(self, floor: Mapping[str, int]) -> "Resources":
        """Return the larger amount of each resource."""
        merged = dict(self)
        for name, amount in floor.items():
            merged[name] = max(merged.get(name, 0), amount)
        return Resources(merged)

    def never_negative(self) -> "Resources":
        return Resources({name: max(0, amount) for name, amount in self.items()})

    def fits_in(self, room: Mapping[str, int]) -> bool:
        """Tell whether all of this is there; a request of zero always is."""
        return all(amount <= room.get(name, 0) for name, amount in self.items() if amount > 0)

    def without_zeros(self) -> "Resources":
        return Resources({name: amount for name, amount in self.items() if amount})


NOTHING = Resources()
ONE_POD = Resources({PODS: 1})


def total(many: Iterable[Mapping[str, int]]) -> Resources:
    """Add up any number of resource lists."""
    summed: dict[str, int] = {}
    for one in many:
        for name, amount in one.items():
            summed[name] = summed.get(name, 0) + amount
    return Resources(summed)
