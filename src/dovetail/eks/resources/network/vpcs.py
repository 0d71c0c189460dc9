"""VPCs, subnets and internet gateways."""

from collections.abc import Mapping
from typing import Any, Final

from dovetail.eks.aws_client import Raw
from dovetail.eks.plan.resource import Existing, Resource
from dovetail.eks.resources.handler import Attributes
from dovetail.eks.resources.network.ec2_base import Making, Tagged

_SWITCHES: Final = {
    "EnableDnsSupport": "enableDnsSupport",
    "EnableDnsHostnames": "enableDnsHostnames",
}
"""In the order in which they can be switched on."""


class Vpcs(Tagged):
    """VPCs, with their two switches for DNS."""

    kind = "vpc"
    lists = ("describe_vpcs", "Vpcs")
    id_key = "VpcId"
    calls_itself = "vpc"

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        return {"CidrBlock": raw["CidrBlock"]}

    async def more(self, raw: Raw) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        for name, attribute in _SWITCHES.items():
            told = await self._reach.ask(
                "ec2", "describe_vpc_attribute", VpcId=raw["VpcId"], Attribute=attribute
            )
            found[name] = bool(told[name]["Value"])
        return found

    def making(self, resource: Resource) -> Making:
        return Making("create_vpc", "Vpc", {"CidrBlock": resource.properties["CidrBlock"]})

    async def create(self, resource: Resource) -> Attributes:
        attributes = await super().create(resource)
        await self._switch(attributes["id"], resource, frozenset(_SWITCHES))
        return attributes

    async def amend(
        self, existing: Existing, resource: Resource, names: frozenset[str]
    ) -> Attributes:
        await self._switch(self.id_of(existing), resource, names)
        return {}

    async def unmake(self, id_: str) -> None:
        await self._reach.remove("ec2", "delete_vpc", VpcId=id_)

    async def _switch(self, id_: str, resource: Resource, names: frozenset[str]) -> None:
        for name in _SWITCHES:
            if name in names and name in resource.properties:
                value = {"Value": resource.properties[name]}
                await self._reach.ask("ec2", "modify_vpc_attribute", VpcId=id_, **{name: value})


class Subnets(Tagged):
    """Subnets of our own VPC."""

    kind = "subnet"
    lists = ("describe_subnets", "Subnets")
    id_key = "SubnetId"
    calls_itself = "subnet"

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        names = ("VpcId", "CidrBlock", "AvailabilityZone", "MapPublicIpOnLaunch")
        return {name: raw[name] for name in names}

    def making(self, resource: Resource) -> Making:
        names = ("VpcId", "CidrBlock", "AvailabilityZone")
        asked = {name: resource.properties[name] for name in names}
        return Making("create_subnet", "Subnet", asked)

    async def create(self, resource: Resource) -> Attributes:
        attributes = await super().create(resource)
        if resource.properties.get("MapPublicIpOnLaunch"):
            await self._give_addresses(attributes["id"], resource)
        return attributes

    async def amend(
        self, existing: Existing, resource: Resource, names: frozenset[str]
    ) -> Attributes:
        await self._give_addresses(self.id_of(existing), resource)
        return {}

    async def unmake(self, id_: str) -> None:
        await self._reach.remove("ec2", "delete_subnet", SubnetId=id_)

    async def _give_addresses(self, id_: str, resource: Resource) -> None:
        value = {"Value": resource.properties["MapPublicIpOnLaunch"]}
        await self._reach.ask(
            "ec2", "modify_subnet_attribute", SubnetId=id_, MapPublicIpOnLaunch=value
        )


class InternetGateways(Tagged):
    """Internet gateways; ``attachments`` joins them to a VPC."""

    kind = "internet-gateway"
    lists = ("describe_internet_gateways", "InternetGateways")
    id_key = "InternetGatewayId"
    calls_itself = "internet-gateway"

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        return {}

    def making(self, resource: Resource) -> Making:
        return Making("create_internet_gateway", "InternetGateway", {})

    async def unmake(self, id_: str) -> None:
        raw, which = await self.one(id_), {"InternetGatewayId": id_}
        for joined in (raw or {}).get("Attachments", ()):
            # Only one that somebody made beside ours is still attached here.
            vpc = joined["VpcId"]
            await self._reach.remove("ec2", "detach_internet_gateway", **which, VpcId=vpc)
        await self._reach.remove("ec2", "delete_internet_gateway", **which)
