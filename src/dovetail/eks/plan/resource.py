"""Desired and observed resources: plain data that all stages of the pipeline share."""

from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter
from typing import Any, Final

import msgspec

from dovetail.eks.plan.references import AWS, find_references

OWNERSHIP_TAG: Final = "dovetail.sh/cluster"
"""On every resource that we create: the name of the cluster that owns it."""
REGION_TAG: Final = "dovetail.sh/region"
"""On IAM resources, which are global: the region of the cluster that owns them."""
NAME_TAG: Final = "dovetail.sh/resource"
"""On resources that AWS finds by tag only (VPCs, subnets): the resource's name."""

FILE_TAGS_TAG: Final = "dovetail.sh/tags"
"""Keys of the file's ``tags``: what may be deleted once the file no longer has it."""


class DesiredResource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource that should exist.

    ``properties`` have the shape of the CloudFormation type. For Kubernetes
    objects they are the manifest; for Helm releases see ``resource_kinds``. Text
    can hold references to other resources. A property that is absent is not
    managed: its value in the account stays.
    """

    kind: str
    """A key of ``resource_kinds.KINDS``."""
    name: str
    """Unique within the kind; the name in AWS, where AWS lets us choose it."""
    properties: Mapping[str, Any] = msgspec.field(default_factory=dict)
    tags: Mapping[str, str] = msgspec.field(default_factory=dict)
    depends_on: tuple[str, ...] = ()
    """Addresses of dependencies that no property refers to."""
    external: bool = False
    """It exists already: observed and referred to, never created, updated or deleted."""
    monthly_usd: float = 0.0
    """Its own cost in a month of 730 hours, at list price."""
    cost_note: str = ""
    """Parts that the cost leaves out or assumes; shown once per plan."""
    purpose: str = ""
    """Purpose in a few words; shown in the plan."""

    @property
    def address(self) -> str:
        return f"{self.kind}/{self.name}"

    def dependencies(self) -> list[str]:
        """Return the addresses that must exist before this one, each once."""
        addresses = dict.fromkeys(self.depends_on)
        for reference in find_references(self.properties):
            if reference.address != AWS:
                addresses.setdefault(reference.address)
        return list(addresses)


class ObservedResource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource that exists, as its handler observed it.

    ``properties`` and ``tags`` have the shape of ``DesiredResource``, without
    references. A property that the handler cannot read is absent and is not
    compared.
    """

    kind: str
    name: str
    properties: Mapping[str, Any] = msgspec.field(default_factory=dict)
    tags: Mapping[str, str] = msgspec.field(default_factory=dict)
    attributes: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Values that others can refer to: the names in ``resource_kinds``."""
    settled: bool = True
    """False in transition (CREATING, UPDATING, DELETING): wait, then observe again."""

    @property
    def address(self) -> str:
        return f"{self.kind}/{self.name}"


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """An AWS account, and the region in use."""

    account: str
    region: str
    partition: str = "aws"
    dns_suffix: str = "amazonaws.com"

    def attribute(self, name: str) -> str:
        """Return the value of ``@{aws:name}``."""
        return str(getattr(self, name.replace("-", "_")))


class ObservedState(msgspec.Struct, frozen=True, kw_only=True):
    """The resources in AWS and Kubernetes at one moment."""

    account: Account
    resources: Mapping[str, ObservedResource] = msgspec.field(default_factory=dict)
    """By address: all desired resources that exist, and all with our ownership tag."""


def sort_by_dependency(resources: Iterable[DesiredResource]) -> list[DesiredResource]:
    """Return resources with dependencies first; otherwise the order is kept.

    Raises ``graphlib.CycleError`` for a cycle, ``KeyError`` for an unknown
    reference and ``ValueError`` for a duplicate address. All are bugs in
    ``desired``, not errors of the user.
    """
    by_address: dict[str, DesiredResource] = {}
    for resource in resources:
        if by_address.setdefault(resource.address, resource) is not resource:
            raise ValueError(f"{resource.address} is desired twice")
    position = {address: number for number, address in enumerate(by_address)}
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for resource in by_address.values():
        for dependency in resource.dependencies():
            if dependency not in by_address:
                raise KeyError(f"{resource.address} depends on {dependency}, which is not desired")
        sorter.add(resource.address, *resource.dependencies())
    sorter.prepare()
    ordered: list[DesiredResource] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=position.__getitem__)
        ordered.extend(by_address[address] for address in ready)
        sorter.done(*ready)
    return ordered
