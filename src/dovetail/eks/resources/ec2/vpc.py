"""Handlers for VPCs, subnets, internet and NAT gateways and VPC endpoints."""

from collections.abc import Mapping
from typing import Any, Final

from dovetail.eks.aws_client import AwsClient, Raw, tag_filter
from dovetail.eks.plan.resource import OWNERSHIP_TAG, DesiredResource, ObservedResource
from dovetail.eks.resources.ec2.base import GONE_STATES, CreateCall, TaggedEc2Handler
from dovetail.eks.resources.handler import Attributes
from dovetail.errors import DovetailError

_DNS_ATTRIBUTES: Final = {"EnableDnsSupport": "enableDnsSupport", "EnableDnsHostnames": "enableDnsHostnames"}
"""Property → VPC attribute; EC2 requires DNS support before DNS host names."""
_GONE_BLOCK_STATES: Final = ("disassociating", "disassociated", "failing", "failed")
_SUBNET_ATTRIBUTES: Final = ("MapPublicIpOnLaunch", "AssignIpv6AddressOnCreation")
_ENDPOINT_LISTS: Final = {
    "SubnetIds": ("AddSubnetIds", "RemoveSubnetIds"),
    "SecurityGroupIds": ("AddSecurityGroupIds", "RemoveSecurityGroupIds"),
    "RouteTableIds": ("AddRouteTableIds", "RemoveRouteTableIds"),
}
"""Property of an endpoint → parameters that add and remove members."""


class VpcHandler(TaggedEc2Handler):
    """VPCs, with their two DNS attributes."""

    kind = "vpc"
    plural = "Vpcs"
    id_key = "VpcId"
    resource_type = "vpc"

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        return {"CidrBlock": raw["CidrBlock"]}

    async def extra_properties(self, raw: Raw) -> Mapping[str, Any]:
        properties: dict[str, Any] = {}
        for name, attribute in _DNS_ATTRIBUTES.items():
            response = await self._aws.call(
                "ec2", "describe_vpc_attribute", VpcId=raw["VpcId"], Attribute=attribute
            )
            properties[name] = bool(response[name]["Value"])
        return properties

    def create_call(self, resource: DesiredResource) -> CreateCall:
        return CreateCall("create_vpc", "Vpc", {"CidrBlock": resource.properties["CidrBlock"]})

    async def create(self, resource: DesiredResource) -> Attributes:
        attributes = await super().create(resource)
        await self._set_dns(attributes["id"], resource, frozenset(_DNS_ATTRIBUTES))
        return attributes

    async def update_properties(
        self, observed: ObservedResource, resource: DesiredResource, names: frozenset[str]
    ) -> Attributes:
        await self._set_dns(self.id_of(observed), resource, names)
        return {}

    async def _set_dns(self, vpc_id: str, resource: DesiredResource, names: frozenset[str]) -> None:
        for name in _DNS_ATTRIBUTES:
            if name in names and name in resource.properties:
                value = {"Value": resource.properties[name]}
                await self._aws.call("ec2", "modify_vpc_attribute", VpcId=vpc_id, **{name: value})


class SubnetHandler(TaggedEc2Handler):
    """Subnets of a VPC that we create."""

    kind = "subnet"
    plural = "Subnets"
    id_key = "SubnetId"
    resource_type = "subnet"

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        names = ("VpcId", "CidrBlock", "AvailabilityZone", "MapPublicIpOnLaunch")
        blocks = [
            association["Ipv6CidrBlock"]
            for association in raw.get("Ipv6CidrBlockAssociationSet", ())
            if (association.get("Ipv6CidrBlockState") or {}).get("State") not in _GONE_BLOCK_STATES
        ]
        return {
            **{name: raw[name] for name in names},
            "Ipv6CidrBlock": blocks[0] if blocks else "",
            "AssignIpv6AddressOnCreation": raw.get("AssignIpv6AddressOnCreation", False),
        }

    def create_call(self, resource: DesiredResource) -> CreateCall:
        names = ("VpcId", "CidrBlock", "AvailabilityZone", "Ipv6CidrBlock")
        parameters = {name: resource.properties[name] for name in names if name in resource.properties}
        return CreateCall("create_subnet", "Subnet", parameters)

    async def create(self, resource: DesiredResource) -> Attributes:
        attributes = await super().create(resource)
        names = frozenset(name for name in _SUBNET_ATTRIBUTES if resource.properties.get(name))
        await self._set_attributes(attributes["id"], resource, names)
        return attributes

    async def update_properties(
        self, observed: ObservedResource, resource: DesiredResource, names: frozenset[str]
    ) -> Attributes:
        await self._set_attributes(self.id_of(observed), resource, names)
        return {}

    async def _set_attributes(self, subnet_id: str, resource: DesiredResource, names: frozenset[str]) -> None:
        """Set attributes of a subnet; EC2 takes one per call."""
        for name in _SUBNET_ATTRIBUTES:
            if name in names:
                value = {"Value": resource.properties[name]}
                await self._aws.call("ec2", "modify_subnet_attribute", SubnetId=subnet_id, **{name: value})


class InternetGatewayHandler(TaggedEc2Handler):
    """Internet gateways; ``InternetGatewayAttachmentHandler`` attaches them."""

    kind = "internet-gateway"
    plural = "InternetGateways"
    id_key = "InternetGatewayId"
    resource_type = "internet-gateway"

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        return {}

    def create_call(self, resource: DesiredResource) -> CreateCall:
        return CreateCall("create_internet_gateway", "InternetGateway", {})

    async def delete_by_id(self, resource_id: str) -> None:
        raw, identity = await self.describe(resource_id), {"InternetGatewayId": resource_id}
        for attachment in (raw or {}).get("Attachments", ()):
            # Our attachment is deleted before; this one was added by others.
            vpc_id = attachment["VpcId"]
            await self._aws.delete("ec2", "detach_internet_gateway", **identity, VpcId=vpc_id)
        await self._aws.delete("ec2", "delete_internet_gateway", **identity)


class ElasticIpHandler(TaggedEc2Handler):
    """Elastic IP addresses."""

    kind = "elastic-ip"
    plural = "Addresses"
    id_key = "AllocationId"
    resource_type = "elastic-ip"

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        return {"Domain": raw["Domain"]}

    def attributes(self, raw: Raw) -> Attributes:
        return {"allocation-id": raw["AllocationId"]}

    def id_of(self, observed: ObservedResource) -> str:
        return str(observed.attributes.get("allocation-id", ""))

    def create_call(self, resource: DesiredResource) -> CreateCall:
        domain = resource.properties.get("Domain", "vpc")
        return CreateCall("allocate_address", "", {"Domain": domain})

    async def delete_by_id(self, resource_id: str) -> None:
        await self._aws.delete("ec2", "release_address", AllocationId=resource_id)


class NatGatewayHandler(TaggedEc2Handler):
    """NAT gateways; creation and deletion take minutes."""

    kind = "nat-gateway"
    plural = "NatGateways"
    id_key = "NatGatewayId"
    resource_type = "natgateway"

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        addresses = raw.get("NatGatewayAddresses") or [{}]
        return {"SubnetId": raw["SubnetId"], "AllocationId": addresses[0].get("AllocationId", "")}

    @property
    def id_filter(self) -> str:
        return "nat-gateway-id"

    def create_call(self, resource: DesiredResource) -> CreateCall:
        return CreateCall("create_nat_gateway", "NatGateway", dict(resource.properties))

    async def wait_until_ready(self, raw: Raw) -> Raw:
        gateway_id = raw["NatGatewayId"]

        async def poll() -> Raw | None:
            current = await self.describe(gateway_id)
            if current is None:
                raise DovetailError(
                    f"NAT gateway {gateway_id} was not created; for the reason see: aws ec2 "
                    f"describe-nat-gateways --nat-gateway-ids {gateway_id}"
                )
            return current if current["State"] == "available" else None

        return await self._aws.wait_for(f"NAT gateway {gateway_id}", poll)

    async def delete_by_id(self, resource_id: str) -> None:
        await self._aws.delete("ec2", "delete_nat_gateway", NatGatewayId=resource_id)

        # "deleting" counts as gone elsewhere, but the network interface still exists then.
        async def poll() -> bool | None:
            gateways = await self._aws.list_all(
                "ec2", "describe_nat_gateways", "NatGateways", NatGatewayIds=[resource_id]
            )
            is_gone = all(gateway["State"] in ("deleted", "failed") for gateway in gateways)
            return True if is_gone else None

        await self._aws.wait_for(f"NAT gateway {resource_id} is being deleted", poll)


class VpcEndpointHandler(TaggedEc2Handler):
    """Interface and gateway endpoints."""

    kind = "vpc-endpoint"
    plural = "VpcEndpoints"
    id_key = "VpcEndpointId"
    resource_type = "vpc-endpoint"

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        return {
            "VpcId": raw["VpcId"],
            "ServiceName": raw["ServiceName"],
            "VpcEndpointType": raw["VpcEndpointType"],
            "PrivateDnsEnabled": raw.get("PrivateDnsEnabled", False),
            "SubnetIds": raw.get("SubnetIds", []),
            "RouteTableIds": raw.get("RouteTableIds", []),
            "SecurityGroupIds": [group["GroupId"] for group in raw.get("Groups", ())],
        }

    def create_call(self, resource: DesiredResource) -> CreateCall:
        return CreateCall("create_vpc_endpoint", "VpcEndpoint", dict(resource.properties))

    async def wait_until_ready(self, raw: Raw) -> Raw:
        async def poll() -> Raw | None:
            current = await self.describe(raw["VpcEndpointId"])
            return current if current and current["State"].lower() == "available" else None

        return await self._aws.wait_for(f"endpoint of {raw['ServiceName']}", poll)

    async def update_properties(
        self, observed: ObservedResource, resource: DesiredResource, names: frozenset[str]
    ) -> Attributes:
        parameters: dict[str, Any] = {}
        for name in sorted(names):
            if name not in _ENDPOINT_LISTS:
                parameters[name] = resource.properties[name]
                continue
            add, remove = _ENDPOINT_LISTS[name]
            before, after = set(observed.properties[name]), set(resource.properties[name])
            parameters[add] = sorted(after - before)
            parameters[remove] = sorted(before - after)
        non_empty = {key: value for key, value in parameters.items() if value != []}
        await self._aws.call("ec2", "modify_vpc_endpoint", VpcEndpointId=self.id_of(observed), **non_empty)
        return {}

    async def describe(self, resource_id: str) -> Raw | None:
        response = await self._aws.call_or_none("ec2", "describe_vpc_endpoints", VpcEndpointIds=[resource_id])
        endpoints = response["VpcEndpoints"] if response else []
        return endpoints[0] if endpoints and endpoints[0]["State"].lower() not in GONE_STATES else None

    async def delete_by_id(self, resource_id: str) -> None:
        response = await self._aws.call("ec2", "delete_vpc_endpoints", VpcEndpointIds=[resource_id])
        # EC2 reports failures of this call in a response of success.
        for item in response.get("Unsuccessful", ()):
            error = item.get("Error") or {}
            if "NotFound" not in error.get("Code", ""):
                raise DovetailError(f"{resource_id}: {error.get('Code')}: {error.get('Message')}")
        await self.wait_until_deleted(resource_id)


async def account_zones(aws: AwsClient) -> dict[str, str]:
    """Return the zones of the account's region, name → id; without local zones."""
    zones = await aws.list_all("ec2", "describe_availability_zones", "AvailabilityZones")
    return {
        zone["ZoneName"]: zone.get("ZoneId", "")
        for zone in zones
        if zone.get("ZoneType", "availability-zone") == "availability-zone"
    }


async def zones_in_use(aws: AwsClient) -> list[str]:
    """Return the zones in which the cluster has private subnets."""
    subnets = await aws.describe_ec2("Subnets", tag_filter(OWNERSHIP_TAG, aws.cluster))
    return sorted(
        {subnet["AvailabilityZone"] for subnet in subnets if not subnet.get("MapPublicIpOnLaunch", False)}
    )
