"""Desired network: a VPC to create, or a selection of existing subnets."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.network import CreatedVpc, ExistingVpc, Nat
from dovetail.eks.desired.names import DISCOVERY, Names
from dovetail.eks.desired.zones import private_cidrs, public_cidrs, select_zones
from dovetail.eks.plan.references import aws_ref, ref
from dovetail.eks.plan.resource import DesiredResource
from dovetail.eks.prices import HOURS_PER_MONTH, PUBLIC_ADDRESS_USD, interface_endpoint_cost, nat_gateway_cost
from dovetail.model.cloud.ec2_catalog import Region
from dovetail.model.cloud.partitions import endpoint_service_prefix

ALL_ADDRESSES: Final = "0.0.0.0/0"
ALL_IPV6_ADDRESSES: Final = "::/0"
PRIVATE_SERVICES: Final = "s3 ec2 ecr.api ecr.dkr sts ssm sqs eks eks-auth logs elasticloadbalancing".split()
"""Services that nodes and the controller call; IAM and Pricing have no endpoint."""
_PUBLIC_SUBNET_TAGS: Final = {"kubernetes.io/role/elb": "1"}
_GATEWAY_SERVICES: Final = ("s3", "dynamodb")


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the network that other resources need; can be references."""

    vpc: str | None
    subnets: Any
    """Private subnets: a list of ids, or one reference that resolves to a list."""
    control_plane: Any
    is_isolated: bool = False
    """No internet access: needs an instance profile, and uses the bundled prices."""
    prerequisites: tuple[str, ...] = ()
    """Addresses of resources that nodes in these subnets need for network access."""


def with_required_endpoints(vpc: CreatedVpc) -> CreatedVpc:
    """Return the VPC with the endpoints that a private cluster needs."""
    if vpc.nat is not Nat.NONE:
        return vpc
    endpoints = list(dict.fromkeys([*PRIVATE_SERVICES, *vpc.endpoints]))
    return vpc.model_copy(update={"endpoints": endpoints})


def network_settings(config: ClusterConfig, region: Region) -> Network:
    """Return the facts about the network of the cluster's nodes."""
    existing = config.vpc.existing if config.vpc else None
    if existing is None:
        vpc = with_required_endpoints((config.vpc.create if config.vpc else None) or CreatedVpc())
        zones = select_zones(vpc, region)
        subnets = [ref(f"subnet/private-{zone}", "id") for zone in zones]
        is_isolated = vpc.nat is Nat.NONE
        prerequisites = [f"vpc-endpoint/{service}" for service in vpc.endpoints]
        if any(service not in _GATEWAY_SERVICES for service in vpc.endpoints):
            prerequisites.append("security-group-rule/endpoints-https")
        if not is_isolated:
            prerequisites.extend(f"route/private-{zone}" for zone in zones)
            if config.ip_family == "ipv6":
                prerequisites.extend(f"route/private-{zone}-ipv6" for zone in zones)
        prerequisites.extend(f"route-table-association/private-{zone}" for zone in zones)
        return Network(
            vpc=ref("vpc/main", "id"),
            subnets=subnets,
            control_plane=subnets,
            is_isolated=is_isolated,
            prerequisites=tuple(prerequisites),
        )
    ids: Any = existing.subnets.ids or ref("subnet-selection/nodes", "ids")
    return Network(
        vpc=existing.id or ref("subnet-selection/nodes", "vpc-id"),
        subnets=ids,
        control_plane=existing.control_plane_subnets or ids,
    )


def desired_network(config: ClusterConfig, names: Names, region: Region) -> Iterator[DesiredResource]:
    """Yield the resources of the network."""
    existing = config.vpc.existing if config.vpc else None
    if existing is not None:
        yield from _existing_resources(existing, names)
        return
    vpc = with_required_endpoints((config.vpc.create if config.vpc else None) or CreatedVpc())
    yield from _vpc_resources(vpc, names, region, ipv6=config.ip_family == "ipv6")


def _existing_resources(existing: ExistingVpc, names: Names) -> Iterator[DesiredResource]:
    selection: dict[str, Any] = (
        {"Ids": existing.subnets.ids} if existing.subnets.ids else {"Tags": existing.subnets.tags}
    )
    vpc_property = {"VpcId": existing.id} if existing.id is not None else {}
    yield DesiredResource(
        kind="subnet-selection", name="nodes", properties={**selection, **vpc_property}, external=True
    )
    if existing.control_plane_subnets:
        yield DesiredResource(
            kind="subnet-selection",
            name="control-plane",
            properties={"Ids": existing.control_plane_subnets, **vpc_property},
            external=True,
        )
    if existing.discovery == "tags":
        groups = existing.security_groups.ids if existing.security_groups else []
        ids = existing.subnets.ids or ref("subnet-selection/nodes", "ids")
        for name, targets in (("subnets", ids), ("security-groups", groups)):
            if targets:
                yield DesiredResource(
                    kind="ec2-tags",
                    name=name,
                    properties={"ResourceIds": targets, "Tags": {DISCOVERY: names.cluster}},
                    purpose="lets node classes select them",
                )


def _vpc_resources(vpc: CreatedVpc, names: Names, region: Region, *, ipv6: bool) -> Iterator[DesiredResource]:
    vpc_id, zones = ref("vpc/main", "id"), select_zones(vpc, region)
    shared = {f"kubernetes.io/cluster/{names.cluster}": "shared"}
    yield DesiredResource(
        kind="vpc",
        name="main",
        properties={"CidrBlock": vpc.cidr, "EnableDnsHostnames": True, "EnableDnsSupport": True},
        tags=shared,
    )
    if ipv6:
        yield DesiredResource(
            kind="vpc-ipv6-block",
            name="main",
            properties={"VpcId": vpc_id, "AmazonProvidedIpv6CidrBlock": True},
            purpose="IPv6 addresses of nodes and pods",
        )
    for zone, block in zip(zones, private_cidrs(vpc, len(zones)), strict=False):
        tags = {**shared, "kubernetes.io/role/internal-elb": "1", DISCOVERY: names.cluster}
        yield _subnet(f"private-{zone}", block, zone, region.name, tags, ipv6=ipv6)
        yield _route_table(f"private-{zone}")
        yield _route_table_association(f"private-{zone}", f"private-{zone}")
    if vpc.nat is not Nat.NONE:
        yield from _internet_access(vpc, zones, region.name, shared, ipv6=ipv6)
        if ipv6:
            yield from _ipv6_access(zones)
    for service in vpc.endpoints:
        yield _vpc_endpoint(service, vpc_id, zones, names, region.name)
    if any(service not in _GATEWAY_SERVICES for service in vpc.endpoints):
        yield from _endpoint_group(names, vpc_id, vpc.cidr)


def _subnet(
    name: str, block: str, zone: str, region: str, tags: dict[str, str], *, ipv6: bool
) -> DesiredResource:
    public = name.startswith("public-")
    properties_for_ipv6: dict[str, Any] = {}
    if ipv6:
        # By the zone's letter, so that a zone that is added changes no other subnet.
        number = ord(zone[-1]) - ord("a") + (128 if public else 0)
        block_ref = ref("vpc-ipv6-block/main", f"subnet-{number}")
        properties_for_ipv6 = {"Ipv6CidrBlock": block_ref, "AssignIpv6AddressOnCreation": True}
    return DesiredResource(
        kind="subnet",
        name=name,
        properties={
            "VpcId": ref("vpc/main", "id"),
            "CidrBlock": block,
            "AvailabilityZone": aws_ref("region") + zone.removeprefix(region),
            "MapPublicIpOnLaunch": public,
            **properties_for_ipv6,
        },
        tags=tags,
    )


def _route_table(name: str) -> DesiredResource:
    return DesiredResource(kind="route-table", name=name, properties={"VpcId": ref("vpc/main", "id")})


def _route_table_association(subnet: str, table: str) -> DesiredResource:
    return DesiredResource(
        kind="route-table-association",
        name=subnet,
        properties={
            "SubnetId": ref(f"subnet/{subnet}", "id"),
            "RouteTableId": ref(f"route-table/{table}", "id"),
        },
    )


def _ipv6_access(zones: list[str]) -> Iterator[DesiredResource]:
    """Yield the IPv6 routes: nodes are not reachable from the internet."""
    yield DesiredResource(
        kind="egress-only-gateway",
        name="main",
        properties={"VpcId": ref("vpc/main", "id")},
        purpose="internet access over IPv6, from inside only",
    )
    for zone in zones:
        yield DesiredResource(
            kind="route",
            name=f"private-{zone}-ipv6",
            properties={
                "RouteTableId": ref(f"route-table/private-{zone}", "id"),
                "DestinationIpv6CidrBlock": ALL_IPV6_ADDRESSES,
                "EgressOnlyInternetGatewayId": ref("egress-only-gateway/main", "id"),
            },
        )
    yield DesiredResource(
        kind="route",
        name="public-ipv6",
        properties={
            "RouteTableId": ref("route-table/public", "id"),
            "DestinationIpv6CidrBlock": ALL_IPV6_ADDRESSES,
            "GatewayId": ref("internet-gateway/main", "id"),
        },
        depends_on=("internet-gateway-attachment/main",),
    )


def _internet_access(
    vpc: CreatedVpc, zones: list[str], region: str, shared: dict[str, str], *, ipv6: bool
) -> Iterator[DesiredResource]:
    attachment = "internet-gateway-attachment/main"
    yield DesiredResource(kind="internet-gateway", name="main")
    yield DesiredResource(
        kind="internet-gateway-attachment",
        name="main",
        properties={"VpcId": ref("vpc/main", "id"), "InternetGatewayId": ref("internet-gateway/main", "id")},
    )
    yield _route_table("public")
    yield DesiredResource(
        kind="route",
        name="public",
        properties={
            "RouteTableId": ref("route-table/public", "id"),
            "DestinationCidrBlock": ALL_ADDRESSES,
            "GatewayId": ref("internet-gateway/main", "id"),
        },
        depends_on=(attachment,),
    )
    for zone, block in zip(zones, public_cidrs(vpc, len(zones)), strict=False):
        tags = {**shared, **_PUBLIC_SUBNET_TAGS}
        yield _subnet(f"public-{zone}", block, zone, region, tags, ipv6=ipv6)
        yield _route_table_association(f"public-{zone}", "public")
    gateways = zones if vpc.nat is Nat.PER_ZONE else zones[:1]
    for zone in gateways:
        yield from _nat_gateway(zone, attachment, region)
    for zone in zones:
        gateway_zone = zone if vpc.nat is Nat.PER_ZONE else zones[0]
        yield DesiredResource(
            kind="route",
            name=f"private-{zone}",
            properties={
                "RouteTableId": ref(f"route-table/private-{zone}", "id"),
                "DestinationCidrBlock": ALL_ADDRESSES,
                "NatGatewayId": ref(f"nat-gateway/{gateway_zone}", "id"),
            },
        )


def _nat_gateway(zone: str, attachment: str, region: str) -> Iterator[DesiredResource]:
    cost = nat_gateway_cost(region)
    yield DesiredResource(
        kind="elastic-ip",
        name=zone,
        properties={"Domain": "vpc"},
        depends_on=(attachment,),
        monthly_usd=HOURS_PER_MONTH * PUBLIC_ADDRESS_USD,
    )
    yield DesiredResource(
        kind="nat-gateway",
        name=zone,
        properties={
            "SubnetId": ref(f"subnet/public-{zone}", "id"),
            "AllocationId": ref(f"elastic-ip/{zone}", "allocation-id"),
        },
        depends_on=("route/public",),
        monthly_usd=cost.monthly_usd,
        cost_note=cost.note,
        purpose="internet access of private subnets",
    )


def _vpc_endpoint(service: str, vpc_id: str, zones: list[str], names: Names, region: str) -> DesiredResource:
    properties: dict[str, Any] = {
        "VpcId": vpc_id,
        "ServiceName": f"{endpoint_service_prefix(region, service)}.{aws_ref('region')}.{service}",
    }
    if service in _GATEWAY_SERVICES:
        tables = [ref(f"route-table/private-{zone}", "id") for zone in zones]
        properties |= {"VpcEndpointType": "Gateway", "RouteTableIds": tables}
        return DesiredResource(kind="vpc-endpoint", name=service, properties=properties)
    properties |= {
        "VpcEndpointType": "Interface",
        "PrivateDnsEnabled": True,
        "SubnetIds": [ref(f"subnet/private-{zone}", "id") for zone in zones],
        "SecurityGroupIds": [ref(f"security-group/{names.endpoint_security_group}", "id")],
    }
    cost = interface_endpoint_cost(region, len(zones))
    return DesiredResource(
        kind="vpc-endpoint",
        name=service,
        properties=properties,
        monthly_usd=cost.monthly_usd,
        cost_note=cost.note,
        purpose=f"access to {service} without the internet",
    )


def _endpoint_group(names: Names, vpc_id: str, cidr: str) -> Iterator[DesiredResource]:
    yield DesiredResource(
        kind="security-group",
        name=names.endpoint_security_group,
        properties={
            "GroupName": names.endpoint_security_group,
            "GroupDescription": f"Access to the VPC endpoints of {names.cluster}",
            "VpcId": vpc_id,
        },
    )
    yield DesiredResource(
        kind="security-group-rule",
        name="endpoints-https",
        properties={
            "GroupId": ref(f"security-group/{names.endpoint_security_group}", "id"),
            "IpProtocol": "tcp",
            "FromPort": 443,
            "ToPort": 443,
            "CidrIp": cidr,
            "Description": "from the VPC",
        },
    )
