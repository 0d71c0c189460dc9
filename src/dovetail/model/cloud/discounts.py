"""Discounts: what a user pays less than the price book says."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

import msgspec

from dovetail.model import labels as label_keys


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What a discount is for; shell patterns, and what is left empty is for all."""

    families: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()

    def covers(self, machine: str, *, region: str, capacity_type: str) -> bool:
        """Tell whether everything that is said here holds for an instance."""
        return (
            _fits(machine.partition(".")[0], self.families)
            and _fits(machine, self.instance_types)
            and _fits(region, self.regions)
            and _fits(capacity_type, self.capacity_types)
        )

    @property
    def names_machines(self) -> bool:
        return bool(self.families or self.instance_types)


class Percentage(msgspec.Struct, frozen=True, kw_only=True):
    """So much off, without a ceiling."""

    percent: float
    scope: Scope = Scope()
    name: str = ""


class SavingsPlan(msgspec.Struct, frozen=True, kw_only=True):
    """An amount that is paid every hour, and buys on-demand hours at a lower rate."""

    name: str
    commitment: float
    """USD per hour, used or not."""
    percent: float
    """Off the list price, as long as the commitment lasts."""
    scope: Scope = Scope()

    def rate(self, list_price: float) -> float:
        """Return what an hour takes of the commitment."""
        return list_price * (1 - self.percent / 100)

    def covers(self, machine: str, *, region: str, zone: str) -> bool:
        del zone  # Plans are for regions.
        return self.scope.covers(machine, region=region, capacity_type=label_keys.ON_DEMAND)


class ReservedInstances(msgspec.Struct, frozen=True, kw_only=True):
    """So many instances of one type that are paid every hour, used or not."""

    name: str
    instance_type: str
    count: int
    price: float
    """USD per hour of each."""
    region: str = ""
    """Empty: in any."""
    zone: str = ""
    """Empty: in any of the region's."""

    def covers(self, machine: str, *, region: str, zone: str) -> bool:
        return (
            machine == self.instance_type
            and self.region in ("", region)
            and self.zone in ("", zone)
        )


class DiscountBook(msgspec.Struct, frozen=True, kw_only=True):
    """All that a user has agreed on with AWS."""

    source: str = ""
    percentages: tuple[Percentage, ...] = ()
    plans: tuple[SavingsPlan, ...] = ()
    reservations: tuple[ReservedInstances, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.percentages or self.has_commitments)

    @property
    def has_commitments(self) -> bool:
        """Tell whether anything in it has a ceiling."""
        return bool(self.plans or self.reservations)

    @property
    def committed(self) -> float:
        """USD per hour that are paid whatever runs."""
        slots = sum(one.count * one.price for one in self.reservations)
        return slots + sum(one.commitment for one in self.plans)

    def factor(self, machine: str, *, region: str, capacity_type: str) -> float:
        """Return what is left of a price by percentages; all that match apply, one upon another."""
        left = 1.0
        # By size, so that the order in which they are written makes no difference at all.
        for one in sorted(self.percentages, key=lambda one: one.percent):
            if one.scope.covers(machine, region=region, capacity_type=capacity_type):
                left *= 1 - one.percent / 100
        return left


NO_DISCOUNTS = DiscountBook()


def _fits(word: str, patterns: Iterable[str]) -> bool:
    known = tuple(patterns)
    return not known or any(fnmatchcase(word, one) for one in known)
