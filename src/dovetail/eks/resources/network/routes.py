"""Route tables, and what joins subnets, tables and gateways."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dovetail.eks.aws_client import Raw, Reach
from dovetail.eks.plan.resource import NAME_TAG, OWNER_TAG, Existing, Resource
from dovetail.eks.resources.handler import Attributes
from dovetail.eks.resources.network.ec2_base import Making, Tagged
from dovetail.eks.resources.property_names import tag_map

_OURS: Final = f"tag:{OWNER_TAG}"
_TARGETS: Final = ("GatewayId", "NatGatewayId")
_EVERYWHERE: Final = "0.0.0.0/0"


class RouteTables(Tagged):
    """Route tables of our own VPC."""

    kind = "route-table"
    lists = ("describe_route_tables", "RouteTables")
    id_key = "RouteTableId"
    calls_itself = "route-table"

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        return {"VpcId": raw["VpcId"]}

    def making(self, resource: Resource) -> Making:
        return Making("create_route_table", "RouteTable", {"VpcId": resource.properties["VpcId"]})

    async def unmake(self, id_: str) -> None:
        raw = await self.one(id_)
        for joined in (raw or {}).get("Associations", ()):
            # Only a table that somebody made beside ours still has any here.
            if not joined.get("Main"):
                which = joined["RouteTableAssociationId"]
                await self._reach.remove("ec2", "disassociate_route_table", AssociationId=which)
        await self._reach.remove("ec2", "delete_route_table", RouteTableId=id_)


class _InTables:
    """What is part of our route tables."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def _tables(self, cluster: str) -> list[Raw]:
        return await self._reach.ask_all(
            "ec2",
            "describe_route_tables",
            "RouteTables",
            Filters=[{"Name": _OURS, "Values": [cluster]}],
        )


class Routes(_InTables):
    """Routes to gateways; those that others added to our tables are left alone."""

    kind = "route"

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        names = {_of_route(one.properties): one.name for one in wanted}
        found: list[Existing] = []
        for table in await self._tables(cluster):
            for raw in table.get("Routes", ()):
                seen = {"RouteTableId": table["RouteTableId"], **_seen(raw)}
                name = names.get(_of_route(seen))
                if name is None and _is_a_default_of_ours(raw):
                    name = tag_map(table.get("Tags")).get(NAME_TAG)
                if name is not None:
                    found.append(Existing(kind=self.kind, name=name, properties=seen))
        return found

    async def create(self, resource: Resource) -> Attributes:
        await self._reach.make("ec2", "create_route", **resource.properties)
        return {}

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        await self._reach.ask("ec2", "replace_route", **resource.properties)
        return {}

    async def remove(self, existing: Existing) -> None:
        names = ("RouteTableId", "DestinationCidrBlock")
        which = {name: existing.properties[name] for name in names}
        await self._reach.remove("ec2", "delete_route", **which)


class Associations(_InTables):
    """Which subnet uses which route table."""

    kind = "route-table-association"

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        names = {one.properties["SubnetId"]: one.name for one in wanted}
        found: list[Existing] = []
        for table in await self._tables(cluster):
            for raw in table.get("Associations", ()):
                name = names.get(raw.get("SubnetId", ""))
                if name is not None:
                    seen = {key: raw[key] for key in ("SubnetId", "RouteTableId")}
                    known = {"association": raw["RouteTableAssociationId"]}
                    found.append(
                        Existing(kind=self.kind, name=name, properties=seen, attributes=known)
                    )
        return found

    async def create(self, resource: Resource) -> Attributes:
        await self._reach.make("ec2", "associate_route_table", **resource.properties)
        return {}

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        return existing.attributes

    async def remove(self, existing: Existing) -> None:
        await self._reach.remove(
            "ec2", "disassociate_route_table", AssociationId=existing.attributes["association"]
        )


class Attachments:
    """Internet gateways in their VPCs."""

    kind = "internet-gateway-attachment"

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        gateways = await self._reach.ask_all(
            "ec2",
            "describe_internet_gateways",
            "InternetGateways",
            Filters=[{"Name": _OURS, "Values": [cluster]}],
        )
        return [
            Existing(
                kind=self.kind,
                name=tag_map(raw.get("Tags")).get(NAME_TAG, raw["InternetGatewayId"]),
                properties={
                    "VpcId": joined["VpcId"],
                    "InternetGatewayId": raw["InternetGatewayId"],
                },
            )
            for raw in gateways
            for joined in raw.get("Attachments", ())
        ]

    async def create(self, resource: Resource) -> Attributes:
        await self._reach.make("ec2", "attach_internet_gateway", **resource.properties)
        return {}

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        return existing.attributes

    async def remove(self, existing: Existing) -> None:
        # Refused while anything in the VPC has a public address.
        await self._reach.remove("ec2", "detach_internet_gateway", **existing.properties)


def _of_route(properties: Mapping[str, Any]) -> tuple[str, str]:
    return properties["RouteTableId"], properties.get("DestinationCidrBlock", "")


def _seen(raw: Raw) -> dict[str, Any]:
    names = ("DestinationCidrBlock", *_TARGETS)
    return {name: raw[name] for name in names if name in raw}


def _is_a_default_of_ours(raw: Raw) -> bool:
    target = next((raw[name] for name in _TARGETS if raw.get(name)), "")
    return raw.get("DestinationCidrBlock") == _EVERYWHERE and target.startswith(("igw-", "nat-"))
