"""Resource lists with exact integer amounts; a missing resource is zero."""

from collections.abc import Iterable, Mapping

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.quantity import format_amount, parse_amount

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
EPHEMERAL_STORAGE = "ephemeral-storage"
NODES = "nodes"
HUGEPAGES_PREFIX = "hugepages-"
STANDARD_RESOURCES = (CPU, MEMORY, EPHEMERAL_STORAGE)
"""Resources of containers without a domain, beside huge pages."""
DEVICE_RESOURCES = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "habana.ai/gaudi",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "aws.amazon.com/neurondevice",
    "vpc.amazonaws.com/efa",
    "vpc.amazonaws.com/pod-eni",
    "vpc.amazonaws.com/PrivateIPv4Address",
)
"""Resources of device plugins on EC2; the most common first."""


class Resources(FrozenDict[str, int]):
    """Resource name → amount; CPU in millicores, all others in whole units.

    Zero amounts can be present (a node that reports zero GPUs) or absent;
    arithmetic treats both the same.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, quantities: Mapping[str, str | int | float]) -> "Resources":
        """Parse a Kubernetes resource list; raises ``ValueError`` with the resource name."""
        amounts: dict[str, int] = {}
        for name, text in quantities.items():
            try:
                amounts[name] = parse_amount(name, text)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return cls(amounts)

    def to_quantities(self) -> dict[str, str]:
        """Return a Kubernetes resource list, sorted by name."""
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

    def maximum(self, other: Mapping[str, int]) -> "Resources":
        """Return the maximum of each resource."""
        merged = dict(self)
        for name, amount in other.items():
            merged[name] = max(merged.get(name, 0), amount)
        return Resources(merged)

    def clamp_at_zero(self) -> "Resources":
        return Resources({name: max(0, amount) for name, amount in self.items()})

    def fits_in(self, available: Mapping[str, int]) -> bool:
        """Return True if no amount exceeds ``available``; zero requests always fit."""
        return all(amount <= available.get(name, 0) for name, amount in self.items() if amount > 0)

    def without_zeros(self) -> "Resources":
        return Resources({name: amount for name, amount in self.items() if amount})


NO_RESOURCES = Resources()
ONE_POD = Resources({PODS: 1})


def is_container_resource(name: str) -> bool:
    """Return True for a standard resource of containers, huge pages, and names with a domain."""
    return name in STANDARD_RESOURCES or name.startswith(HUGEPAGES_PREFIX) or "/" in name


def sum_resources(resource_lists: Iterable[Mapping[str, int]]) -> Resources:
    """Return the sum of resource lists."""
    summed: dict[str, int] = {}
    for resource_list in resource_lists:
        for name, amount in resource_list.items():
            summed[name] = summed.get(name, 0) + amount
    return Resources(summed)
