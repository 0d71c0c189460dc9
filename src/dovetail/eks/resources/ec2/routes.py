"""Handlers for route tables, routes, associations and gateway attachments."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dovetail.eks.aws_client import Raw, tag_filter
from dovetail.eks.plan.resource import NAME_TAG, OWNERSHIP_TAG, DesiredResource, ObservedResource
from dovetail.eks.resources.ec2.base import CreateCall, TaggedEc2Handler
from dovetail.eks.resources.handler import Attributes, AwsHandler
from dovetail.eks.resources.property_names import tag_map

_TARGETS: Final = ("GatewayId", "NatGatewayId", "EgressOnlyInternetGatewayId")
_DESTINATIONS: Final = {"DestinationCidrBlock": "0.0.0.0/0", "DestinationIpv6CidrBlock": "::/0"}
"""Property with the destination → destination of a default route."""
_IPV6_SUFFIX: Final = "-ipv6"


class RouteTableHandler(TaggedEc2Handler):
    """Route tables of a VPC that we create."""

    kind = "route-table"
    plural = "RouteTables"
    id_key = "RouteTableId"
    resource_type = "route-table"

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        return {"VpcId": raw["VpcId"]}

    def create_call(self, resource: DesiredResource) -> CreateCall:
        parameters = {"VpcId": resource.properties["VpcId"]}
        return CreateCall("create_route_table", "RouteTable", parameters)

    async def delete_by_id(self, resource_id: str) -> None:
        raw = await self.describe(resource_id)
        for association in (raw or {}).get("Associations", ()):
            # Our associations are deleted before; a duplicate table still has its own.
            if not association.get("Main"):
                association_id = association["RouteTableAssociationId"]
                await self._aws.delete("ec2", "disassociate_route_table", AssociationId=association_id)
        await self._aws.delete("ec2", "delete_route_table", RouteTableId=resource_id)


class _RouteTablePartHandler(AwsHandler):
    """Base of handlers for parts of owned route tables."""

    async def _tables(self, cluster: str) -> list[Raw]:
        return await self._aws.describe_ec2("RouteTables", tag_filter(OWNERSHIP_TAG, cluster))


class RouteHandler(_RouteTablePartHandler):
    """Routes to gateways; routes that others added to our tables are kept."""

    kind = "route"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        names = {_route_key(resource.properties): resource.name for resource in desired}
        observed: list[ObservedResource] = []
        for table in await self._tables(cluster):
            for raw in table.get("Routes", ()):
                properties = {"RouteTableId": table["RouteTableId"], **_route_properties(raw)}
                name = names.get(_route_key(properties))
                table_name = tag_map(table.get("Tags")).get(NAME_TAG)
                if name is None and table_name and _is_default_route(raw):
                    name = table_name + (_IPV6_SUFFIX if raw.get("DestinationIpv6CidrBlock") else "")
                if name is not None:
                    observed.append(ObservedResource(kind=self.kind, name=name, properties=properties))
        return observed

    async def create(self, resource: DesiredResource) -> Attributes:
        await self._aws.create("ec2", "create_route", **resource.properties)
        return {}

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        await self._aws.call("ec2", "replace_route", **resource.properties)
        return {}

    async def delete(self, observed: ObservedResource) -> None:
        names = ("RouteTableId", *_DESTINATIONS)
        identity = {name: observed.properties[name] for name in names if observed.properties.get(name)}
        await self._aws.delete("ec2", "delete_route", **identity)


class RouteTableAssociationHandler(_RouteTablePartHandler):
    """Associations of subnets with route tables."""

    kind = "route-table-association"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        names = {resource.properties["SubnetId"]: resource.name for resource in desired}
        return [
            ObservedResource(
                kind=self.kind,
                name=names[raw["SubnetId"]],
                properties={key: raw[key] for key in ("SubnetId", "RouteTableId")},
                attributes={"association": raw["RouteTableAssociationId"]},
            )
            for table in await self._tables(cluster)
            for raw in table.get("Associations", ())
            if raw.get("SubnetId", "") in names
        ]

    async def create(self, resource: DesiredResource) -> Attributes:
        await self._aws.create("ec2", "associate_route_table", **resource.properties)
        return {}

    async def delete(self, observed: ObservedResource) -> None:
        association_id = observed.attributes["association"]
        await self._aws.delete("ec2", "disassociate_route_table", AssociationId=association_id)


class InternetGatewayAttachmentHandler(AwsHandler):
    """Attachments of internet gateways to VPCs."""

    kind = "internet-gateway-attachment"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        gateways = await self._aws.describe_ec2("InternetGateways", tag_filter(OWNERSHIP_TAG, cluster))
        return [
            ObservedResource(
                kind=self.kind,
                name=tag_map(raw.get("Tags")).get(NAME_TAG) or raw["InternetGatewayId"],
                properties={"VpcId": attachment["VpcId"], "InternetGatewayId": raw["InternetGatewayId"]},
            )
            for raw in gateways
            for attachment in raw.get("Attachments", ())
        ]

    async def create(self, resource: DesiredResource) -> Attributes:
        await self._aws.create("ec2", "attach_internet_gateway", **resource.properties)
        return {}

    async def delete(self, observed: ObservedResource) -> None:
        # EC2 answers DependencyViolation while the VPC has a public address in use.
        await self._aws.delete("ec2", "detach_internet_gateway", **observed.properties)


def _route_key(properties: Mapping[str, Any]) -> tuple[str, str]:
    destination = next((properties[name] for name in _DESTINATIONS if properties.get(name)), "")
    return properties["RouteTableId"], destination


def _route_properties(raw: Raw) -> dict[str, Any]:
    return {name: raw[name] for name in (*_DESTINATIONS, *_TARGETS) if raw.get(name)}


def _is_default_route(raw: Raw) -> bool:
    """Return True for a default route to a gateway, as we create."""
    target = next((raw[name] for name in _TARGETS if raw.get(name)), "")
    is_default = any(raw.get(name) == default for name, default in _DESTINATIONS.items())
    return is_default and target.startswith(("igw-", "nat-", "eigw-"))
