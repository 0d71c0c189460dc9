"""Price estimates for instance types that a price list lacks."""

from collections.abc import Iterable, Mapping
from math import log

import msgspec

from dovetail.core.instancetypes.type_names import family_of, size_of
from dovetail.model.cloud.ec2_catalog import Ec2InstanceType

_DIGITS = 5
"""Decimals: AWS lists prices to a thousandth of a cent."""


class PriceReference(msgspec.Struct, frozen=True):
    """A family whose price is that of another family times a factor."""

    family: str
    factor: float


def estimate_prices(
    listed: Mapping[str, float],
    ec2_types: Iterable[Ec2InstanceType],
    references: Mapping[str, PriceReference],
) -> dict[str, float]:
    """Return USD per hour for the EC2 types that ``listed`` lacks.

    A type costs what its family costs per vCPU: the price of the same size if there
    is one, else of the nearest. Bare metal costs as much as the largest virtual size.
    A family without prices uses its reference; types without either are left out.
    """
    all_types = tuple(ec2_types)
    families: dict[str, list[Ec2InstanceType]] = {}
    for ec2_type in all_types:
        if ec2_type.name in listed and not ec2_type.bare_metal:
            families.setdefault(family_of(ec2_type.name), []).append(ec2_type)
    estimates: dict[str, float] = {}
    for ec2_type in all_types:
        if ec2_type.name in listed:
            continue
        family = family_of(ec2_type.name)
        reference = PriceReference(family, 1.0) if family in families else references.get(family)
        siblings = families.get(reference.family) if reference else None
        if reference and siblings:
            price = _price_by_size(ec2_type, siblings, listed) * reference.factor
            estimates[ec2_type.name] = round(price, _DIGITS)
    return estimates


def _price_by_size(
    ec2_type: Ec2InstanceType, siblings: list[Ec2InstanceType], listed: Mapping[str, float]
) -> float:
    """Return the price scaled from the sibling nearest in size; ties by name."""
    for sibling in siblings:
        # Burstable types with equal vCPUs differ in price by their size alone.
        if size_of(sibling.name) == size_of(ec2_type.name):
            return listed[sibling.name]
    nearest = min(
        siblings,
        key=lambda sibling: (abs(log(sibling.vcpus / ec2_type.vcpus)), -sibling.memory_mib, sibling.name),
    )
    return listed[nearest.name] * ec2_type.vcpus / nearest.vcpus
