"""Handlers for the IPv6 block of a VPC, and for egress-only internet gateways."""

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv6Network
from typing import Any

from dovetail.aws.errors import AwsError, ErrorKind
from dovetail.eks.aws_client import Raw
from dovetail.eks.plan.resource import DesiredResource, ObservedResource
from dovetail.eks.plan.resource_kinds import IPV6_SUBNET_NUMBERS
from dovetail.eks.resources.ec2.base import CreateCall, TaggedEc2Handler
from dovetail.eks.resources.handler import Attributes, AwsHandler


class VpcIpv6BlockHandler(AwsHandler):
    """The /56 block that Amazon assigns to a VPC; its /64 blocks are for subnets."""

    kind = "vpc-ipv6-block"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        observed: list[ObservedResource] = []
        for resource in desired:
            association = await self._find(resource.properties["VpcId"])
            if association is not None:
                properties = {"VpcId": resource.properties["VpcId"], "AmazonProvidedIpv6CidrBlock": True}
                observed.append(
                    ObservedResource(
                        kind=self.kind,
                        name=resource.name,
                        properties=properties,
                        attributes=_attributes(association),
                        settled=_state(association) == "associated",
                    )
                )
        return observed

    async def create(self, resource: DesiredResource) -> Attributes:
        vpc_id = resource.properties["VpcId"]
        await self._aws.retry_until_visible(
            lambda: self._aws.run("ec2", "associate_vpc_cidr_block", lambda: self._associate(vpc_id))
        )

        async def poll() -> Raw | None:
            association = await self._find(vpc_id)
            return association if association is not None and _state(association) == "associated" else None

        return _attributes(await self._aws.wait_for(f"IPv6 block of {vpc_id}", poll))

    def _associate(self, vpc_id: str) -> None:
        """Add a block unless there is one; runs in a thread, and again if a response is lost."""
        client = self._aws.session.client("ec2")
        if _find_association(client.describe_vpcs(VpcIds=[vpc_id])["Vpcs"]) is None:
            client.associate_vpc_cidr_block(VpcId=vpc_id, AmazonProvidedIpv6CidrBlock=True)

    async def delete(self, observed: ObservedResource) -> None:
        association = observed.attributes["association"]
        await self._aws.delete("ec2", "disassociate_vpc_cidr_block", AssociationId=association)

    async def _find(self, vpc_id: str) -> Raw | None:
        if not vpc_id.startswith("vpc-"):
            return None  # An unresolved reference: the VPC does not exist.
        vpcs = await self._aws.describe_ec2("Vpcs", {"Name": "vpc-id", "Values": [vpc_id]})
        return _find_association(vpcs)


def _find_association(vpcs: Iterable[Raw]) -> Raw | None:
    associations = [raw for vpc in vpcs for raw in vpc.get("Ipv6CidrBlockAssociationSet", ())]
    return next((raw for raw in associations if _state(raw) in ("associating", "associated")), None)


def _state(association: Raw) -> str:
    return str((association.get("Ipv6CidrBlockState") or {}).get("State", ""))


def _attributes(association: Raw) -> Attributes:
    block = association.get("Ipv6CidrBlock", "")
    attributes = {"association": association["AssociationId"]}
    if block:
        first, size = IPv6Network(block).network_address, 1 << 64
        attributes |= {f"subnet-{n}": str(IPv6Network((first + n * size, 64))) for n in IPV6_SUBNET_NUMBERS}
    return attributes


class EgressOnlyGatewayHandler(TaggedEc2Handler):
    """Egress-only internet gateways: connections over IPv6 from inside only."""

    kind = "egress-only-gateway"
    plural = "EgressOnlyInternetGateways"
    id_key = "EgressOnlyInternetGatewayId"
    resource_type = "egress-only-internet-gateway"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        try:
            return await super().observe(cluster, desired)
        except AwsError as error:
            # A file with IPv4 needs no permission for these gateways.
            if desired or error.kind is not ErrorKind.ACCESS_DENIED:
                raise
            return []

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        return {"VpcId": next((attachment["VpcId"] for attachment in raw.get("Attachments", ())), "")}

    def create_call(self, resource: DesiredResource) -> CreateCall:
        parameters = {"VpcId": resource.properties["VpcId"]}
        return CreateCall("create_egress_only_internet_gateway", "EgressOnlyInternetGateway", parameters)
