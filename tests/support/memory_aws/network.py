"""EC2 in memory: VPCs, subnets, gateways and routes.

It refuses what EC2 refuses: the deletion of what is in use, overlapping CIDR
blocks, duplicate names and rules, gateways without their prerequisites.
"""

from collections.abc import Iterable
from ipaddress import IPv4Network
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from tests.support.memory_aws.refusals import Raw, refusal, tag_list, tag_map

if TYPE_CHECKING:
    from tests.support.memory_aws.account import MemoryAccount

ZONES: Final = {
    f"us-east-1{letter}": f"use1-az{number}"
    for letter, number in zip("abcdef", (6, 1, 2, 4, 3, 5), strict=True)
}
_FILTERS: Final = {
    "vpc-id": "VpcId",
    "subnet-id": "SubnetId",
    "group-id": "GroupId",
    "group-name": "GroupName",
    "launch-template-name": "LaunchTemplateName",
    "launch-template-id": "LaunchTemplateId",
    "nat-gateway-id": "NatGatewayId",
    "route-table-id": "RouteTableId",
    "internet-gateway-id": "InternetGatewayId",
    "vpc-endpoint-id": "VpcEndpointId",
}
_NOT_FOUND: Final = {
    "vpc": "InvalidVpcID.NotFound",
    "subnet": "InvalidSubnetID.NotFound",
    "igw": "InvalidInternetGatewayID.NotFound",
    "eipalloc": "InvalidAllocationID.NotFound",
    "nat": "NatGatewayNotFound",
    "rtb": "InvalidRouteTableID.NotFound",
    "vpce": "InvalidVpcEndpointId.NotFound",
    "sg": "InvalidGroup.NotFound",
    "lt": "InvalidLaunchTemplateId.NotFound",
}
_MAX_TAGS: Final = 50


class MemoryNetwork:
    """Resources by id; methods have the names and parameters of boto3's client."""

    def __init__(self, account: "MemoryAccount") -> None:
        self.account = account
        self.numbers = count(1)
        self.resources: dict[str, Raw] = {}
        """Id → description as EC2 returns it, with ``Tags``."""
        self.dns: dict[str, dict[str, bool]] = {}

    def of_type(self, prefix: str) -> list[Raw]:
        start = prefix + "-"
        return [raw for key, raw in self.resources.items() if key.startswith(start)]

    def find(self, resource_id: str) -> Raw:
        raw = self.resources.get(resource_id)
        if raw is None:
            prefix = resource_id.partition("-")[0]
            raise refusal(_NOT_FOUND.get(prefix, "InvalidID"), f"The ID '{resource_id}' does not exist")
        return raw

    def add(self, prefix: str, id_key: str, specifications: Any, **fields: Any) -> Raw:
        resource_id = f"{prefix}-{next(self.numbers):017x}"
        tags = {key: value for spec in specifications or () for key, value in tag_map(spec["Tags"]).items()}
        check_tags(tags)
        self.resources[resource_id] = {id_key: resource_id, **fields, "Tags": tag_list(tags)}
        return self.resources[resource_id]

    def select(self, prefix: str, filters: Any, ids: Iterable[str] | None = None) -> list[Raw]:
        if ids:
            return [dict(self.find(resource_id)) for resource_id in ids]
        return [dict(raw) for raw in self.of_type(prefix) if matches(raw, filters or ())]

    def create_tags(self, *, Resources: list[str], Tags: list[Raw]) -> Raw:
        for resource_id in Resources:
            raw = self.find(resource_id)
            tags = {**tag_map(raw["Tags"]), **tag_map(Tags)}
            check_tags(tags)
            raw["Tags"] = tag_list(tags)
        return {}

    def delete_tags(self, *, Resources: list[str], Tags: list[Raw]) -> Raw:
        for resource_id in Resources:
            raw = self.find(resource_id)
            removed = {tag["Key"]: tag.get("Value") for tag in Tags}
            kept = {
                key: value
                for key, value in tag_map(raw["Tags"]).items()
                if key not in removed or removed[key] not in (None, value)
            }
            raw["Tags"] = tag_list(kept)
        return {}

    def describe_tags(self, *, Filters: list[Raw]) -> Raw:
        values = {entry["Name"]: entry["Values"] for entry in Filters}
        assert set(values) <= {"resource-id", "key", "value"}, values
        return {
            "Tags": [
                {"ResourceId": resource_id, **tag}
                for resource_id in values.get("resource-id", self.resources)
                if resource_id in self.resources
                for tag in self.resources[resource_id].get("Tags", ())
                if tag["Key"] in values.get("key", [tag["Key"]])
                and tag["Value"] in values.get("value", [tag["Value"]])
            ]
        }

    def describe_availability_zones(self) -> Raw:
        return {
            "AvailabilityZones": [
                {"ZoneName": name, "ZoneId": zone_id, "ZoneType": "availability-zone"}
                for name, zone_id in ZONES.items()
            ]
        }

    def describe_instances(self, *, Filters: Any = ()) -> Raw:
        return {"Reservations": []}

    def describe_network_interfaces(self, *, Filters: Any = ()) -> Raw:
        return {"NetworkInterfaces": []}

    def describe_volumes(self, *, Filters: Any = ()) -> Raw:
        return {"Volumes": []}

    # VPCs and subnets.

    def create_vpc(self, *, CidrBlock: str, TagSpecifications: Any = (), **more: Any) -> Raw:
        raw = self.add("vpc", "VpcId", TagSpecifications, CidrBlock=CidrBlock, State="available", **more)
        self.dns[raw["VpcId"]] = {"enableDnsSupport": True, "enableDnsHostnames": False}
        return {"Vpc": dict(raw)}

    def describe_vpcs(self, *, Filters: Any = (), VpcIds: Any = None) -> Raw:
        return {"Vpcs": self.select("vpc", Filters, VpcIds)}

    def describe_vpc_attribute(self, *, VpcId: str, Attribute: str) -> Raw:
        self.find(VpcId)
        name = Attribute[0].upper() + Attribute[1:]
        return {"VpcId": VpcId, name: {"Value": self.dns[VpcId][Attribute]}}

    def modify_vpc_attribute(self, *, VpcId: str, **attributes: Raw) -> Raw:
        self.find(VpcId)
        assert len(attributes) == 1, "one attribute per call"
        for name, value in attributes.items():
            attribute = name[0].lower() + name[1:]
            assert attribute in self.dns[VpcId], attribute
            if attribute == "enableDnsHostnames" and value["Value"]:
                assert self.dns[VpcId]["enableDnsSupport"], "DNS host names need DNS support"
            self.dns[VpcId] = {**self.dns[VpcId], attribute: bool(value["Value"])}
        return {}

    def delete_vpc(self, *, VpcId: str) -> Raw:
        self.find(VpcId)
        users = [
            key
            for key, raw in self.resources.items()
            if raw.get("VpcId") == VpcId and key != VpcId and raw.get("State") != "deleted"
        ]
        users += [raw["InternetGatewayId"] for raw in self.of_type("igw") if _attached_to(raw, VpcId)]
        self.refuse_if_used(VpcId, users)
        del self.resources[VpcId], self.dns[VpcId]
        return {}

    def create_subnet(
        self, *, VpcId: str, CidrBlock: str, AvailabilityZone: str, TagSpecifications: Any = (), **more: Any
    ) -> Raw:
        vpc = self.find(VpcId)
        assert AvailabilityZone in ZONES, AvailabilityZone
        block = IPv4Network(CidrBlock)
        if not (block.subnet_of(IPv4Network(vpc["CidrBlock"])) and 16 <= block.prefixlen <= 28):
            raise refusal("InvalidSubnet.Range", f"The CIDR '{CidrBlock}' is invalid.")
        for other in self.of_type("subnet"):
            if other["VpcId"] == VpcId and IPv4Network(other["CidrBlock"]).overlaps(block):
                raise refusal("InvalidSubnet.Conflict", f"{CidrBlock} conflicts with another subnet")
        raw = self.add(
            "subnet",
            "SubnetId",
            TagSpecifications,
            VpcId=VpcId,
            CidrBlock=CidrBlock,
            AvailabilityZone=AvailabilityZone,
            AvailabilityZoneId=ZONES[AvailabilityZone],
            MapPublicIpOnLaunch=False,
            State="available",
            **more,
        )
        return {"Subnet": dict(raw)}

    def describe_subnets(self, *, Filters: Any = (), SubnetIds: Any = None) -> Raw:
        return {"Subnets": self.select("subnet", Filters, SubnetIds)}

    def modify_subnet_attribute(self, *, SubnetId: str, **attributes: Raw) -> Raw:
        raw = self.find(SubnetId)
        assert len(attributes) == 1, "one attribute per call"
        for name, value in attributes.items():
            raw[name] = bool(value["Value"])
        return {}

    def delete_subnet(self, *, SubnetId: str) -> Raw:
        self.find(SubnetId)
        users = [
            key
            for key, raw in self.resources.items()
            if key.startswith(("nat-", "vpce-"))
            and raw["State"] != "deleted"
            and (raw.get("SubnetId") == SubnetId or SubnetId in raw.get("SubnetIds", ()))
        ]
        self.refuse_if_used(SubnetId, [*users, *self.account.eks.users_of_subnet(SubnetId)])
        for table in self.of_type("rtb"):
            table["Associations"] = [
                entry for entry in table["Associations"] if entry["SubnetId"] != SubnetId
            ]
        del self.resources[SubnetId]
        return {}

    def refuse_if_used(self, resource_id: str, users: Iterable[str]) -> None:
        users = sorted(users)
        if users:
            message = f"{resource_id} has dependencies and cannot be deleted: {', '.join(users)}"
            raise refusal("DependencyViolation", message)

    # Gateways and routes.

    def create_internet_gateway(self, *, TagSpecifications: Any = ()) -> Raw:
        raw = self.add("igw", "InternetGatewayId", TagSpecifications, Attachments=[])
        return {"InternetGateway": dict(raw)}

    def describe_internet_gateways(self, *, Filters: Any = ()) -> Raw:
        return {"InternetGateways": self.select("igw", Filters)}

    def describe_egress_only_internet_gateways(self, *, Filters: Any = ()) -> Raw:
        return {"EgressOnlyInternetGateways": []}

    def attach_internet_gateway(self, *, InternetGatewayId: str, VpcId: str) -> Raw:
        raw = self.find(InternetGatewayId)
        self.find(VpcId)
        if raw["Attachments"] or any(_attached_to(other, VpcId) for other in self.of_type("igw")):
            raise refusal("Resource.AlreadyAssociated", f"{InternetGatewayId} or {VpcId} is attached")
        raw["Attachments"] = [{"VpcId": VpcId, "State": "available"}]
        return {}

    def detach_internet_gateway(self, *, InternetGatewayId: str, VpcId: str) -> Raw:
        raw = self.find(InternetGatewayId)
        if not _attached_to(raw, VpcId):
            raise refusal("Gateway.NotAttached", f"{InternetGatewayId} is not attached to {VpcId}")
        self.refuse_if_used(
            VpcId, (nat["NatGatewayId"] for nat in self._live_nats() if nat["VpcId"] == VpcId)
        )
        raw["Attachments"] = []
        return {}

    def delete_internet_gateway(self, *, InternetGatewayId: str) -> Raw:
        self.refuse_if_used(
            InternetGatewayId, [entry["VpcId"] for entry in self.find(InternetGatewayId)["Attachments"]]
        )
        del self.resources[InternetGatewayId]
        return {}

    def allocate_address(self, *, Domain: str, TagSpecifications: Any = ()) -> Raw:
        return dict(self.add("eipalloc", "AllocationId", TagSpecifications, Domain=Domain))

    def describe_addresses(self, *, Filters: Any = ()) -> Raw:
        return {"Addresses": self.select("eipalloc", Filters)}

    def release_address(self, *, AllocationId: str) -> Raw:
        self.find(AllocationId)
        if any(_allocation(nat) == AllocationId for nat in self._live_nats()):
            raise refusal("InvalidIPAddress.InUse", f"{AllocationId} is in use")
        del self.resources[AllocationId]
        return {}

    def _live_nats(self) -> list[Raw]:
        return [nat for nat in self.of_type("nat") if nat["State"] != "deleted"]

    def create_nat_gateway(self, *, SubnetId: str, AllocationId: str, TagSpecifications: Any = ()) -> Raw:
        vpc = self.find(SubnetId)["VpcId"]
        self.find(AllocationId)
        if any(_allocation(nat) == AllocationId for nat in self._live_nats()):
            raise refusal("Resource.AlreadyAssociated", f"{AllocationId} is associated")
        if not any(_attached_to(gateway, vpc) for gateway in self.of_type("igw")):
            raise refusal("Gateway.NotAttached", f"Network {vpc} has no Internet gateway attached")
        raw = self.add(
            "nat",
            "NatGatewayId",
            TagSpecifications,
            SubnetId=SubnetId,
            VpcId=vpc,
            NatGatewayAddresses=[{"AllocationId": AllocationId}],
            State="pending",
        )
        return {"NatGateway": dict(raw)}

    def describe_nat_gateways(self, *, Filters: Any = (), NatGatewayIds: Any = None) -> Raw:
        gateways = self.select("nat", Filters, NatGatewayIds)
        for gateway in gateways:
            self.settle(gateway["NatGatewayId"])
        return {"NatGateways": gateways}

    def settle(self, resource_id: str) -> None:
        """Finish a transition: the next description shows its end."""
        raw = self.resources[resource_id]
        raw["State"] = {"pending": "available", "deleting": "deleted"}.get(raw["State"], raw["State"])

    def delete_nat_gateway(self, *, NatGatewayId: str) -> Raw:
        self.find(NatGatewayId)["State"] = "deleting"
        return {}

    def create_route_table(self, *, VpcId: str, TagSpecifications: Any = ()) -> Raw:
        self.find(VpcId)
        raw = self.add("rtb", "RouteTableId", TagSpecifications, VpcId=VpcId, Routes=[], Associations=[])
        return {"RouteTable": dict(raw)}

    def describe_route_tables(self, *, Filters: Any = ()) -> Raw:
        return {"RouteTables": self.select("rtb", Filters)}

    def delete_route_table(self, *, RouteTableId: str) -> Raw:
        raw = self.find(RouteTableId)
        self.refuse_if_used(RouteTableId, [entry["SubnetId"] for entry in raw["Associations"]])
        for endpoint in self.of_type("vpce"):
            endpoint["RouteTableIds"] = [key for key in endpoint["RouteTableIds"] if key != RouteTableId]
        del self.resources[RouteTableId]
        return {}

    def create_route(self, *, RouteTableId: str, **route: str) -> Raw:
        return self._put_route(RouteTableId, route, exists=False)

    def replace_route(self, *, RouteTableId: str, **route: str) -> Raw:
        return self._put_route(RouteTableId, route, exists=True)

    def _put_route(self, table_id: str, route: dict[str, str], *, exists: bool) -> Raw:
        table = self.find(table_id)
        destination = _destination(route)
        existing = any(_destination(entry) == destination for entry in table["Routes"])
        if existing and not exists:
            raise refusal("RouteAlreadyExists", f"{destination} is in {table_id}")
        if exists and not existing:
            raise refusal("InvalidParameterValue", f"There is no route defined for '{destination}'")
        targets = [value for key, value in route.items() if key.endswith("GatewayId")]
        assert len(targets) == 1, route
        target = self.find(targets[0])
        if target.get("State") in ("deleting", "deleted"):
            raise refusal("NatGatewayNotFound", f"{targets[0]} was not found")
        if targets[0].startswith("igw-") and not _attached_to(target, table["VpcId"]):
            raise refusal("InvalidParameterValue", f"{targets[0]} is not attached to {table['VpcId']}")
        kept = [entry for entry in table["Routes"] if _destination(entry) != destination]
        table["Routes"] = [*kept, dict(route)]
        return {"Return": True}

    def delete_route(self, *, RouteTableId: str, **destination: str) -> Raw:
        table = self.find(RouteTableId)
        kept = [entry for entry in table["Routes"] if _destination(entry) != _destination(destination)]
        if len(kept) == len(table["Routes"]):
            raise refusal("InvalidRoute.NotFound", f"no route {destination} in {RouteTableId}")
        table["Routes"] = kept
        return {}

    def associate_route_table(self, *, RouteTableId: str, SubnetId: str) -> Raw:
        table = self.find(RouteTableId)
        self.find(SubnetId)
        for other in self.of_type("rtb"):
            if any(entry["SubnetId"] == SubnetId for entry in other["Associations"]):
                raise refusal("Resource.AlreadyAssociated", f"{SubnetId} has {other['RouteTableId']}")
        association = {
            "RouteTableAssociationId": f"rtbassoc-{next(self.numbers):017x}",
            "RouteTableId": RouteTableId,
            "SubnetId": SubnetId,
            "Main": False,
        }
        table["Associations"] = [*table["Associations"], association]
        return {"AssociationId": association["RouteTableAssociationId"]}

    def disassociate_route_table(self, *, AssociationId: str) -> Raw:
        for table in self.of_type("rtb"):
            kept = [
                entry for entry in table["Associations"] if entry["RouteTableAssociationId"] != AssociationId
            ]
            if len(kept) < len(table["Associations"]):
                table["Associations"] = kept
                return {}
        raise refusal("InvalidAssociationID.NotFound", f"The association ID '{AssociationId}' does not exist")


def check_tags(tags: dict[str, str]) -> None:
    if len(tags) > _MAX_TAGS:
        raise refusal("TagLimitExceeded", "The maximum number of Tags for a resource is 50")
    if any(key.lower().startswith("aws:") for key in tags):
        raise refusal("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use")


def matches(raw: Raw, filters: Iterable[Raw]) -> bool:
    for entry in filters:
        name, values = entry["Name"], entry["Values"]
        if name.startswith("tag:"):
            value = tag_map(raw["Tags"]).get(name[4:])
            if value is None or not (value in values or "*" in values):
                return False
        elif name == "tag-key":
            if not set(values).intersection(tag_map(raw["Tags"])):
                return False
        elif raw.get(_FILTERS[name]) not in values:
            return False
    return True


def _attached_to(gateway: Raw, vpc_id: str) -> bool:
    return any(entry["VpcId"] == vpc_id for entry in gateway["Attachments"])


def _allocation(nat: Raw) -> str:
    return str(nat["NatGatewayAddresses"][0]["AllocationId"])


def _destination(route: dict[str, str]) -> str:
    return route.get("DestinationCidrBlock") or route["DestinationIpv6CidrBlock"]
