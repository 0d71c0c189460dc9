"""NAT gateways and their elastic addresses."""

from collections.abc import Mapping
from typing import Any

from dovetail.eks.aws_client import Raw
from dovetail.eks.plan.resource import Existing, Resource
from dovetail.eks.resources.handler import Attributes
from dovetail.eks.resources.network.ec2_base import Making, Tagged
from dovetail.errors import DovetailError


class ElasticIps(Tagged):
    """Addresses that stay the same."""

    kind = "elastic-ip"
    lists = ("describe_addresses", "Addresses")
    id_key = "AllocationId"
    calls_itself = "elastic-ip"

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        return {"Domain": raw["Domain"]}

    def attributes(self, raw: Raw) -> Attributes:
        return {"allocation-id": raw["AllocationId"]}

    def id_of(self, existing: Existing) -> str:
        return str(existing.attributes.get("allocation-id", ""))

    def making(self, resource: Resource) -> Making:
        domain = resource.properties.get("Domain", "vpc")
        return Making("allocate_address", "", {"Domain": domain})

    async def unmake(self, id_: str) -> None:
        await self._reach.remove("ec2", "release_address", AllocationId=id_)


class NatGateways(Tagged):
    """NAT gateways; they take minutes to come and to go."""

    kind = "nat-gateway"
    lists = ("describe_nat_gateways", "NatGateways")
    id_key = "NatGatewayId"
    calls_itself = "natgateway"

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        addresses = raw.get("NatGatewayAddresses") or [{}]
        return {
            "SubnetId": raw["SubnetId"],
            "AllocationId": addresses[0].get("AllocationId", ""),
        }

    @property
    def id_filter(self) -> str:
        return "nat-gateway-id"

    def making(self, resource: Resource) -> Making:
        return Making("create_nat_gateway", "NatGateway", dict(resource.properties))

    async def ready(self, raw: Raw) -> Raw:
        async def look() -> Raw | None:
            found = await self.one(raw["NatGatewayId"])
            if found is None:
                raise DovetailError(
                    f"NAT gateway {raw['NatGatewayId']} did not come up; EC2 says why: aws ec2 "
                    f"describe-nat-gateways --nat-gateway-ids {raw['NatGatewayId']}"
                )
            return found if found["State"] == "available" else None

        return await self._reach.until(f"NAT gateway {raw['NatGatewayId']}", look)

    async def unmake(self, id_: str) -> None:
        await self._reach.remove("ec2", "delete_nat_gateway", NatGatewayId=id_)

        # It leaves the list of what is there while its network interface still goes.
        async def look() -> bool | None:
            found = await self._reach.ask_all(
                "ec2", "describe_nat_gateways", "NatGateways", NatGatewayIds=[id_]
            )
            return True if all(one["State"] in ("deleted", "failed") for one in found) else None

        await self._reach.until(f"NAT gateway {id_} is being removed", look)
