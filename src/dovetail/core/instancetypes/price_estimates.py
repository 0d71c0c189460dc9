"""Prices of machine types that a price list leaves out."""

from collections.abc import Iterable, Mapping
from math import log

import msgspec

from dovetail.core.instancetypes.type_names import family_of, size_of
from dovetail.model.cloud.ec2_catalog import Machine

_DIGITS = 5
"""AWS quotes prices to a thousandth of a cent."""


class Relative(msgspec.Struct, frozen=True):
    """A family that is priced like another, by a factor."""

    like: str
    factor: float


def estimated_prices(
    listed: Mapping[str, float],
    machines: Iterable[Machine],
    relatives: Mapping[str, Relative],
) -> dict[str, float]:
    """Return USD per hour for the machines that ``listed`` leaves out.

    A type costs what its family costs per vCPU: the same size if there is one
    (bare metal costs what its largest virtual sibling does), else the nearest.
    A family without any price follows its relative. What has neither stays out.
    """
    everything = tuple(machines)
    families: dict[str, list[Machine]] = {}
    for machine in everything:
        if machine.name in listed and not machine.bare_metal:
            families.setdefault(family_of(machine.name), []).append(machine)
    estimates: dict[str, float] = {}
    for machine in everything:
        if machine.name in listed:
            continue
        family = family_of(machine.name)
        relative = Relative(family, 1.0) if family in families else relatives.get(family)
        siblings = families.get(relative.like) if relative else None
        if relative and siblings:
            price = _by_size(machine, siblings, listed) * relative.factor
            estimates[machine.name] = round(price, _DIGITS)
    return estimates


def _by_size(machine: Machine, siblings: list[Machine], listed: Mapping[str, float]) -> float:
    """Scale the price of the sibling that is nearest in size; ties go to the first name."""
    for sibling in siblings:
        # Burstable types of one vCPU count differ in price by their size alone.
        if size_of(sibling.name) == size_of(machine.name):
            return listed[sibling.name]
    nearest = min(
        siblings, key=lambda one: (abs(log(one.vcpus / machine.vcpus)), -one.memory_mib, one.name)
    )
    return listed[nearest.name] * machine.vcpus / nearest.vcpus
