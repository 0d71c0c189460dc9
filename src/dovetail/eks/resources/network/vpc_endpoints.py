"""VPC endpoints: AWS's services from private subnets."""

from collections.abc import Mapping
from typing import Any, Final

from dovetail.eks.aws_client import Raw
from dovetail.eks.plan.resource import Existing, Resource
from dovetail.eks.resources.handler import Attributes
from dovetail.eks.resources.network.ec2_base import Making, Tagged

_LISTS: Final = {
    "SubnetIds": ("AddSubnetIds", "RemoveSubnetIds"),
    "SecurityGroupIds": ("AddSecurityGroupIds", "RemoveSecurityGroupIds"),
    "RouteTableIds": ("AddRouteTableIds", "RemoveRouteTableIds"),
}


class Endpoints(Tagged):
    """Interface and gateway endpoints."""

    kind = "vpc-endpoint"
    lists = ("describe_vpc_endpoints", "VpcEndpoints")
    id_key = "VpcEndpointId"
    calls_itself = "vpc-endpoint"

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        return {
            "VpcId": raw["VpcId"],
            "ServiceName": raw["ServiceName"],
            "VpcEndpointType": raw["VpcEndpointType"],
            "PrivateDnsEnabled": raw.get("PrivateDnsEnabled", False),
            "SubnetIds": raw.get("SubnetIds", []),
            "RouteTableIds": raw.get("RouteTableIds", []),
            "SecurityGroupIds": [one["GroupId"] for one in raw.get("Groups", ())],
        }

    def making(self, resource: Resource) -> Making:
        return Making("create_vpc_endpoint", "VpcEndpoint", dict(resource.properties))

    async def ready(self, raw: Raw) -> Raw:
        async def look() -> Raw | None:
            found = await self.one(raw["VpcEndpointId"])
            return found if found and found["State"].lower() == "available" else None

        return await self._reach.until(f"endpoint of {raw['ServiceName']}", look)

    async def amend(
        self, existing: Existing, resource: Resource, names: frozenset[str]
    ) -> Attributes:
        asked: dict[str, Any] = {}
        for name in sorted(names):
            if name not in _LISTS:
                asked[name] = resource.properties[name]
                continue
            adding, removing = _LISTS[name]
            before, after = set(existing.properties[name]), set(resource.properties[name])
            asked[adding] = sorted(after - before)
            asked[removing] = sorted(before - after)
        given = {key: value for key, value in asked.items() if value != []}
        await self._reach.ask(
            "ec2", "modify_vpc_endpoint", VpcEndpointId=self.id_of(existing), **given
        )
        return {}

    async def unmake(self, id_: str) -> None:
        await self._reach.remove("ec2", "delete_vpc_endpoints", VpcEndpointIds=[id_])
        await self.gone(id_)
