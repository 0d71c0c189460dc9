"""Wanted and existing resources, as plain data that every reader of them shares."""

from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter
from typing import Any, Final

import msgspec

from dovetail.eks.plan.references import AWS, references

OWNER_TAG: Final = "dovetail.sh/cluster"
"""On everything we make: the name of the cluster it was made for."""
NAME_TAG: Final = "dovetail.sh/resource"
"""On what AWS finds by tag only (VPCs, subnets): the resource's own name."""


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """Something that should be there.

    ``properties`` have the shape that CloudFormation gives to the type (for
    Kubernetes objects: the manifest; for Helm releases: see ``kindfacts``),
    with references to other resources in the text. A property that is not
    there is nobody's business: whatever it is in the account stays as it is.
    """

    kind: str
    """A key of ``kindfacts.KINDS``."""
    name: str
    """Unique among its kind; what AWS calls it, where AWS lets us choose."""
    properties: Mapping[str, Any] = msgspec.field(default_factory=dict)
    tags: Mapping[str, str] = msgspec.field(default_factory=dict)
    depends_on: tuple[str, ...] = ()
    """Addresses that must be there first although no property refers to them."""
    given: bool = False
    """It was there before us: read, referred to, never made, changed or removed."""
    monthly_usd: float = 0.0
    """What it costs by itself in a month of 730 hours, at list price."""
    why: str = ""
    """What it is for, in a few words, for the plan's reader."""

    @property
    def address(self) -> str:
        return f"{self.kind}/{self.name}"

    def needs(self) -> list[str]:
        """Return the addresses that must be there before this one, each once."""
        found = dict.fromkeys(self.depends_on)
        for one in references(self.properties):
            if one.address != AWS:
                found.setdefault(one.address)
        return list(found)


class Existing(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is there, as its kind's reader found it.

    ``properties`` and ``tags`` are in the shape of ``Resource``, without
    references. A property that the reader cannot see is left out and takes no
    part in comparisons.
    """

    kind: str
    name: str
    properties: Mapping[str, Any] = msgspec.field(default_factory=dict)
    tags: Mapping[str, str] = msgspec.field(default_factory=dict)
    attributes: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """What others may refer to: the names that ``kindfacts`` lists."""
    settled: bool = True
    """False while it is on its way (CREATING, UPDATING, DELETING): wait, then look again."""

    @property
    def address(self) -> str:
        return f"{self.kind}/{self.name}"


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Whose account it is, and where."""

    account: str
    region: str
    partition: str = "aws"
    dns_suffix: str = "amazonaws.com"

    def attribute(self, name: str) -> str:
        return str(getattr(self, name.replace("-", "_")))


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What AWS and Kubernetes say is there, at one moment."""

    account: Account
    resources: Mapping[str, Existing] = msgspec.field(default_factory=dict)
    """By address. All that was wanted and found, and all that is tagged as ours."""


def in_order(resources: Iterable[Resource]) -> list[Resource]:
    """Return resources so that each comes after what it needs; else as they were given.

    Raises ``graphlib.CycleError`` for a circle, ``KeyError`` for a reference to
    nothing and ``ValueError`` for twins; all are bugs in ``desired``, not
    mistakes of a user.
    """
    by_address: dict[str, Resource] = {}
    for one in resources:
        if by_address.setdefault(one.address, one) is not one:
            raise ValueError(f"{one.address} is wanted twice")
    place = {address: number for number, address in enumerate(by_address)}
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for one in by_address.values():
        for need in one.needs():
            if need not in by_address:
                raise KeyError(f"{one.address} needs {need}, which nobody wants")
        sorter.add(one.address, *one.needs())
    sorter.prepare()
    found: list[Resource] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=place.__getitem__)
        found.extend(by_address[address] for address in ready)
        sorter.done(*ready)
    return found
