"""Price estimates for instance types that a price list lacks."""

from collections.abc import Collection, Iterable, Mapping
from math import log

import msgspec

from dovetail.core.instancetypes.type_names import family_of, previous_generation, size_of
from dovetail.model.cloud.ec2_catalog import Ec2InstanceType

_DIGITS = 5
"""Decimals: AWS lists prices to a thousandth of a cent."""


GENERATION_FACTOR = 1.1
"""Assumed price of a new generation relative to the one before, as of m8g to m7g."""


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
    A family without prices uses its reference, else the generation before it. Types
    without any of these are left out, and so are new accelerators: their prices differ
    too much from generation to generation.
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
        reference = _find_reference(ec2_type, families, references)
        if reference is not None:
            price = _price_by_size(ec2_type, families[reference.family], listed) * reference.factor
            estimates[ec2_type.name] = round(price, _DIGITS)
    return estimates


def _find_reference(
    ec2_type: Ec2InstanceType, families: Collection[str], references: Mapping[str, PriceReference]
) -> PriceReference | None:
    """Return a family with prices, and the factor on its prices."""
    has_accelerator = bool(ec2_type.gpus or ec2_type.neuron or ec2_type.inference)
    family, factor = family_of(ec2_type.name), 1.0
    while family not in families:
        reference = references.get(family)
        if reference is not None:
            return (
                PriceReference(reference.family, factor * reference.factor)
                if reference.family in families
                else None
            )
        previous = None if has_accelerator else previous_generation(family)
        if previous is None:
            return None
        family, factor = previous, factor * GENERATION_FACTOR
    return PriceReference(family, factor)


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
