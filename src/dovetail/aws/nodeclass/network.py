"""Subnets and security groups: those that terms select, and how full subnets are."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dovetail.aws.filters import Filters, filters_of
from dovetail.aws.session import Aws
from dovetail.model.karpenter.ec2nodeclass_launch import SelectorTerm

_PAGE: Final = {"PageSize": 500}


class FoundSubnet(msgspec.Struct, frozen=True, kw_only=True):
    """A subnet as EC2 describes it."""

    id: str
    zone: str
    zone_id: str = ""
    free: int = 0

    def wire(self) -> dict[str, str]:
        """Write it as an entry of ``status.subnets``."""
        shown = {"id": self.id, "zone": self.zone}
        return {**shown, "zoneID": self.zone_id} if self.zone_id else shown


class FoundGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A security group as EC2 describes it."""

    id: str
    name: str = ""

    def wire(self) -> dict[str, str]:
        """Write it as an entry of ``status.securityGroups``."""
        return {"id": self.id, "name": self.name} if self.name else {"id": self.id}


class FreeAddresses:
    """How many addresses subnets have free, those of machines on their way taken off.

    EC2's own count, which lags, replaces ours whenever it is asked for.
    """

    def __init__(self) -> None:
        self._free: dict[str, int] = {}
        self._taken: dict[str, int] = {}

    def free(self, subnet_id: str) -> int:
        """Return how many there are; none in a subnet that nobody has described."""
        return max(0, self._free.get(subnet_id, 0) - self._taken.get(subnet_id, 0))

    def take(self, amounts: Mapping[str, int]) -> None:
        """Count on fewer from now on: machines have been asked for (subnet → addresses)."""
        for subnet_id, amount in amounts.items():
            self._taken[subnet_id] = self._taken.get(subnet_id, 0) + amount

    def give_back(self, amounts: Mapping[str, int]) -> None:
        """Undo ``take``; what EC2 has counted since is right already."""
        for subnet_id, amount in amounts.items():
            self._taken[subnet_id] = max(0, self._taken.get(subnet_id, 0) - amount)

    def exhaust(self, subnet_id: str) -> None:
        """EC2 says that it has none left."""
        self._free[subnet_id] = 0

    def counted(self, counts: Mapping[str, int]) -> None:
        """EC2 has counted (subnet → free addresses)."""
        for subnet_id, free in counts.items():
            self._free[subnet_id] = free
            self._taken.pop(subnet_id, None)


class Network:
    """Finds what is selected of the account's network."""

    def __init__(self, aws: Aws, addresses: FreeAddresses) -> None:
        self._aws = aws
        self._addresses = addresses

    async def subnets(self, terms: Sequence[SelectorTerm]) -> list[FoundSubnet]:
        """Return the subnets that any term finds, most free addresses first."""
        queries = filters_of(terms, id_key="subnet-id")
        described = await self._all("DescribeSubnets", "describe_subnets", "Subnets", queries)
        found = {
            one["SubnetId"]: FoundSubnet(
                id=one["SubnetId"],
                zone=one["AvailabilityZone"],
                zone_id=one.get("AvailabilityZoneId", ""),
                free=one.get("AvailableIpAddressCount", 0),
            )
            for one in described
        }
        self._addresses.counted({one.id: one.free for one in found.values()})
        return sorted(found.values(), key=lambda one: (-one.free, one.id))

    async def security_groups(self, terms: Sequence[SelectorTerm]) -> list[FoundGroup]:
        """Return the groups that any term finds; all of them are put on every machine."""
        queries = filters_of(terms, id_key="group-id", name_key="group-name")
        described = await self._all(
            "DescribeSecurityGroups", "describe_security_groups", "SecurityGroups", queries
        )
        found = {
            one["GroupId"]: FoundGroup(id=one["GroupId"], name=one.get("GroupName", ""))
            for one in described
        }
        return sorted(found.values(), key=lambda one: one.id)

    async def _all(
        self, operation: str, method: str, answer: str, queries: Sequence[Filters]
    ) -> list[dict[str, Any]]:
        client: Any = self._aws.ec2()
        found: list[dict[str, Any]] = []
        for filters in queries:

            def pages(filters: Filters = filters) -> list[dict[str, Any]]:
                every = client.get_paginator(method).paginate(
                    Filters=filters, PaginationConfig=_PAGE
                )
                return [one for page in every for one in page[answer]]

            found += await self._aws.call(operation, pages)
        return found
