"""The network: a VPC of its own, or what is known of one that is there."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.config.network import CreatedVpc, ExistingVpc, Nat
from dovetail.eks.desired.names import DISCOVERY, Names
from dovetail.eks.desired.zones import private_blocks, public_blocks, zones_of
from dovetail.eks.plan.references import aws, ref
from dovetail.eks.plan.resource import Resource
from dovetail.model.cloud.ec2_catalog import Region

ANYWHERE: Final = "0.0.0.0/0"
HOURS: Final = 730
NAT_USD: Final = 0.045
ADDRESS_USD: Final = 0.005
ENDPOINT_USD: Final = 0.01
PRIVATE_SERVICES: Final = (
    "s3 ec2 ecr.api ecr.dkr sts ssm sqs eks eks-auth logs elasticloadbalancing".split()
)
"""What nodes and the controller talk to; there is none for IAM or prices."""
_FOR_LOAD_BALANCERS: Final = {"kubernetes.io/role/elb": "1"}
_BY_ROUTE: Final = ("s3", "dynamodb")


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """What the rest needs to know of the network; all of it may be references."""

    vpc: str | None
    subnets: Any
    """Private subnets: a list of ids, or one reference that resolves to a list."""
    control_plane: Any
    isolated: bool = False
    """No way out: node classes need an instance profile, prices are the bundled ones."""
    ways: tuple[str, ...] = ()
    """Addresses of what must be there before a node in these subnets reaches anything."""


def created(vpc: CreatedVpc) -> CreatedVpc:
    """Return the VPC with the endpoints that it needs."""
    if vpc.nat is not Nat.NONE:
        return vpc
    endpoints = list(dict.fromkeys([*PRIVATE_SERVICES, *vpc.endpoints]))
    return vpc.model_copy(update={"endpoints": endpoints})


def network_of(spec: ClusterSpec, region: Region) -> Network:
    """Return where the cluster's nodes live."""
    existing = spec.vpc.existing if spec.vpc else None
    if existing is None:
        vpc = created((spec.vpc.create if spec.vpc else None) or CreatedVpc())
        zones = zones_of(vpc, region)
        subnets = [ref(f"subnet/private-{zone}", "id") for zone in zones]
        isolated = vpc.nat is Nat.NONE
        ways = [f"vpc-endpoint/{service}" for service in vpc.endpoints]
        if any(service not in _BY_ROUTE for service in vpc.endpoints):
            ways.append("security-group-rule/endpoints-https")
        if not isolated:
            ways.extend(f"route/private-{zone}" for zone in zones)
        ways.extend(f"route-table-association/private-{zone}" for zone in zones)
        return Network(
            vpc=ref("vpc/main", "id"),
            subnets=subnets,
            control_plane=subnets,
            isolated=isolated,
            ways=tuple(ways),
        )
    ids: Any = existing.subnets.ids or ref("subnet-selection/nodes", "ids")
    return Network(
        vpc=existing.id or ref("subnet-selection/nodes", "vpc-id"),
        subnets=ids,
        control_plane=existing.control_plane_subnets or ids,
    )


def network(spec: ClusterSpec, names: Names, region: Region) -> Iterator[Resource]:
    """Hand out the resources of the network."""
    existing = spec.vpc.existing if spec.vpc else None
    if existing is not None:
        yield from _found(existing, names)
        return
    vpc = created((spec.vpc.create if spec.vpc else None) or CreatedVpc())
    yield from _vpc(vpc, names, region)


def _found(existing: ExistingVpc, names: Names) -> Iterator[Resource]:
    chosen: dict[str, Any] = (
        {"Ids": existing.subnets.ids} if existing.subnets.ids else {"Tags": existing.subnets.tags}
    )
    within = {"VpcId": existing.id} if existing.id is not None else {}
    yield Resource(
        kind="subnet-selection", name="nodes", properties={**chosen, **within}, given=True
    )
    if existing.control_plane_subnets:
        yield Resource(
            kind="subnet-selection",
            name="control-plane",
            properties={"Ids": existing.control_plane_subnets, **within},
            given=True,
        )
    if existing.discovery == "tags":
        groups = existing.security_groups.ids if existing.security_groups else []
        ids = existing.subnets.ids or ref("subnet-selection/nodes", "ids")
        for name, targets in (("subnets", ids), ("security-groups", groups)):
            if targets:
                yield Resource(
                    kind="ec2-tags",
                    name=name,
                    properties={"ResourceIds": targets, "Tags": {DISCOVERY: names.cluster}},
                    why="so that node classes find them",
                )


def _vpc(vpc: CreatedVpc, names: Names, region: Region) -> Iterator[Resource]:
    vpc_id, zones = ref("vpc/main", "id"), zones_of(vpc, region)
    shared = {f"kubernetes.io/cluster/{names.cluster}": "shared"}
    yield Resource(
        kind="vpc",
        name="main",
        properties={
            "CidrBlock": vpc.cidr,
            "EnableDnsHostnames": True,
            "EnableDnsSupport": True,
        },
        tags=shared,
    )
    for zone, block in zip(zones, private_blocks(vpc, len(zones)), strict=False):
        tags = {**shared, "kubernetes.io/role/internal-elb": "1", DISCOVERY: names.cluster}
        yield _subnet(f"private-{zone}", block, zone, region.name, tags)
        yield _route_table(f"private-{zone}")
        yield _association(f"private-{zone}", f"private-{zone}")
    if vpc.nat is not Nat.NONE:
        yield from _way_out(vpc, zones, region.name, shared)
    for service in vpc.endpoints:
        yield _endpoint(service, vpc_id, zones, names)
    if any(service not in _BY_ROUTE for service in vpc.endpoints):
        yield from _endpoint_group(names, vpc_id, vpc.cidr)


def _subnet(name: str, block: str, zone: str, region: str, tags: dict[str, str]) -> Resource:
    public = name.startswith("public-")
    return Resource(
        kind="subnet",
        name=name,
        properties={
            "VpcId": ref("vpc/main", "id"),
            "CidrBlock": block,
            "AvailabilityZone": aws("region") + zone.removeprefix(region),
            "MapPublicIpOnLaunch": public,
        },
        tags=tags,
    )


def _route_table(name: str) -> Resource:
    return Resource(kind="route-table", name=name, properties={"VpcId": ref("vpc/main", "id")})


def _association(subnet: str, table: str) -> Resource:
    return Resource(
        kind="route-table-association",
        name=subnet,
        properties={
            "SubnetId": ref(f"subnet/{subnet}", "id"),
            "RouteTableId": ref(f"route-table/{table}", "id"),
        },
    )


def _way_out(
    vpc: CreatedVpc, zones: list[str], region: str, shared: dict[str, str]
) -> Iterator[Resource]:
    attached = "internet-gateway-attachment/main"
    yield Resource(kind="internet-gateway", name="main")
    yield Resource(
        kind="internet-gateway-attachment",
        name="main",
        properties={
            "VpcId": ref("vpc/main", "id"),
            "InternetGatewayId": ref("internet-gateway/main", "id"),
        },
    )
    yield _route_table("public")
    yield Resource(
        kind="route",
        name="public",
        properties={
            "RouteTableId": ref("route-table/public", "id"),
            "DestinationCidrBlock": ANYWHERE,
            "GatewayId": ref("internet-gateway/main", "id"),
        },
        depends_on=(attached,),
    )
    for zone, block in zip(zones, public_blocks(vpc, len(zones)), strict=False):
        yield _subnet(f"public-{zone}", block, zone, region, {**shared, **_FOR_LOAD_BALANCERS})
        yield _association(f"public-{zone}", "public")
    gateways = zones if vpc.nat is Nat.PER_ZONE else zones[:1]
    for zone in gateways:
        yield from _nat(zone, attached)
    for zone in zones:
        through = zone if vpc.nat is Nat.PER_ZONE else zones[0]
        yield Resource(
            kind="route",
            name=f"private-{zone}",
            properties={
                "RouteTableId": ref(f"route-table/private-{zone}", "id"),
                "DestinationCidrBlock": ANYWHERE,
                "NatGatewayId": ref(f"nat-gateway/{through}", "id"),
            },
        )


def _nat(zone: str, attached: str) -> Iterator[Resource]:
    yield Resource(
        kind="elastic-ip",
        name=zone,
        properties={"Domain": "vpc"},
        depends_on=(attached,),
        monthly_usd=HOURS * ADDRESS_USD,
    )
    yield Resource(
        kind="nat-gateway",
        name=zone,
        properties={
            "SubnetId": ref(f"subnet/public-{zone}", "id"),
            "AllocationId": ref(f"elastic-ip/{zone}", "allocation-id"),
        },
        depends_on=("route/public",),
        monthly_usd=HOURS * NAT_USD,
        why="how private subnets reach the internet",
    )


def _endpoint(service: str, vpc_id: str, zones: list[str], names: Names) -> Resource:
    properties: dict[str, Any] = {
        "VpcId": vpc_id,
        "ServiceName": f"com.amazonaws.{aws('region')}.{service}",
    }
    if service in _BY_ROUTE:
        tables = [ref(f"route-table/private-{zone}", "id") for zone in zones]
        properties |= {"VpcEndpointType": "Gateway", "RouteTableIds": tables}
        return Resource(kind="vpc-endpoint", name=service, properties=properties)
    properties |= {
        "VpcEndpointType": "Interface",
        "PrivateDnsEnabled": True,
        "SubnetIds": [ref(f"subnet/private-{zone}", "id") for zone in zones],
        "SecurityGroupIds": [ref(f"security-group/{names.endpoint_group}", "id")],
    }
    return Resource(
        kind="vpc-endpoint",
        name=service,
        properties=properties,
        monthly_usd=HOURS * ENDPOINT_USD * len(zones),
        why=f"how nodes reach {service} without the internet",
    )


def _endpoint_group(names: Names, vpc_id: str, cidr: str) -> Iterator[Resource]:
    yield Resource(
        kind="security-group",
        name=names.endpoint_group,
        properties={
            "GroupName": names.endpoint_group,
            "GroupDescription": f"What may talk to the VPC endpoints of {names.cluster}",
            "VpcId": vpc_id,
        },
    )
    yield Resource(
        kind="security-group-rule",
        name="endpoints-https",
        properties={
            "GroupId": ref(f"security-group/{names.endpoint_group}", "id"),
            "IpProtocol": "tcp",
            "FromPort": 443,
            "ToPort": 443,
            "CidrIp": cidr,
            "Description": "the VPC itself",
        },
    )
