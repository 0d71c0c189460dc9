"""Subnets and security groups: resolves selector terms, tracks free addresses."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dovetail.aws.filters import Filters, selector_filters
from dovetail.aws.session import AwsSession
from dovetail.model.karpenter.ec2nodeclass_launch import SelectorTerm

_PAGE_SIZE: Final = 500


class DescribedSubnet(msgspec.Struct, frozen=True, kw_only=True):
    """A subnet as EC2 describes it."""

    id: str
    zone: str
    zone_id: str = ""
    free_addresses: int = 0

    def encode(self) -> dict[str, str]:
        """Return the entry of ``status.subnets``."""
        encoded = {"id": self.id, "zone": self.zone}
        return {**encoded, "zoneID": self.zone_id} if self.zone_id else encoded


class DescribedSecurityGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A security group as EC2 describes it."""

    id: str
    name: str = ""

    def encode(self) -> dict[str, str]:
        """Return the entry of ``status.securityGroups``."""
        return {"id": self.id, "name": self.name} if self.name else {"id": self.id}


class FreeAddresses:
    """Free IP addresses per subnet, less those of launches in flight.

    Each DescribeSubnets replaces the count, although it lags behind launches.
    """

    def __init__(self) -> None:
        self._free: dict[str, int] = {}
        self._reserved: dict[str, int] = {}

    def free(self, subnet_id: str) -> int:
        """Return the number of free addresses; 0 for an unknown subnet."""
        return max(0, self._free.get(subnet_id, 0) - self._reserved.get(subnet_id, 0))

    def reserve(self, amounts: Mapping[str, int]) -> None:
        """Subtract the addresses of requested instances (subnet → addresses)."""
        for subnet_id, amount in amounts.items():
            self._reserved[subnet_id] = self._reserved.get(subnet_id, 0) + amount

    def release(self, amounts: Mapping[str, int]) -> None:
        """Undo ``reserve``, unless ``update`` has replaced the count since."""
        for subnet_id, amount in amounts.items():
            self._reserved[subnet_id] = max(0, self._reserved.get(subnet_id, 0) - amount)

    def mark_exhausted(self, subnet_id: str) -> None:
        """Record that EC2 reports no free address in a subnet."""
        self._free[subnet_id] = 0

    def update(self, counts: Mapping[str, int]) -> None:
        """Replace the counts by those of EC2 (subnet → free addresses)."""
        for subnet_id, free in counts.items():
            self._free[subnet_id] = free
            self._reserved.pop(subnet_id, None)


class NetworkResolver:
    """Resolves subnets and security groups."""

    def __init__(self, aws: AwsSession, addresses: FreeAddresses) -> None:
        self._aws = aws
        self._addresses = addresses

    async def resolve_subnets(self, terms: Sequence[SelectorTerm]) -> list[DescribedSubnet]:
        """Return the subnets that any term selects, most free addresses first."""
        queries = selector_filters(terms, id_key="subnet-id")
        described = await self._describe("DescribeSubnets", "Subnets", queries)
        by_id = {
            subnet["SubnetId"]: DescribedSubnet(
                id=subnet["SubnetId"],
                zone=subnet["AvailabilityZone"],
                zone_id=subnet.get("AvailabilityZoneId", ""),
                free_addresses=subnet.get("AvailableIpAddressCount", 0),
            )
            for subnet in described
        }
        self._addresses.update({subnet.id: subnet.free_addresses for subnet in by_id.values()})
        return sorted(by_id.values(), key=lambda subnet: (-subnet.free_addresses, subnet.id))

    async def resolve_security_groups(self, terms: Sequence[SelectorTerm]) -> list[DescribedSecurityGroup]:
        """Return the security groups that any term selects; instances get all of them."""
        queries = selector_filters(terms, id_key="group-id", name_key="group-name")
        described = await self._describe("DescribeSecurityGroups", "SecurityGroups", queries)
        by_id = {
            group["GroupId"]: DescribedSecurityGroup(id=group["GroupId"], name=group.get("GroupName", ""))
            for group in described
        }
        return sorted(by_id.values(), key=lambda group: group.id)

    async def _describe(self, operation: str, field: str, queries: Sequence[Filters]) -> list[dict[str, Any]]:
        """Return the entries of ``field`` of all queries and pages."""
        ec2 = self._aws.ec2()
        return [
            entry
            for filters in queries
            for entry in await self._aws.list_pages(
                operation, ec2, field, page_size=_PAGE_SIZE, Filters=filters
            )
        ]
