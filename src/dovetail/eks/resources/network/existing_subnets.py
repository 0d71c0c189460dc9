"""What was there before us: subnets that are looked up, and tags put on what others own."""

from collections.abc import Iterable, Sequence

from dovetail.eks.aws_client import Raw, Reach
from dovetail.eks.plan.resource import Existing, Resource
from dovetail.eks.resources.handler import Attributes, WrongStep
from dovetail.eks.resources.property_names import tag_list


class SubnetSelections:
    """Subnets by ids or tags; never written."""

    kind = "subnet-selection"

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        found = [await self._found(one) for one in wanted]
        return [one for one in found if one is not None]

    async def create(self, resource: Resource) -> Attributes:
        raise WrongStep(f"{resource.address} is only ever looked up")

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        raise WrongStep(f"{resource.address} is only ever looked up")

    async def remove(self, existing: Existing) -> None:
        raise WrongStep(f"{existing.address} is only ever looked up")

    async def _found(self, one: Resource) -> Existing | None:
        ids = one.properties.get("Ids")
        # Subnets by id are all looked at, in whatever VPC: what is wrong with them can be said.
        filters = [{"Name": "subnet-id", "Values": list(ids)}] if ids else []
        filters += [
            {"Name": f"tag:{key}", "Values": [value]}
            for key, value in one.properties.get("Tags", {}).items()
        ]
        if one.properties.get("VpcId") and not ids:
            filters.append({"Name": "vpc-id", "Values": [one.properties["VpcId"]]})
        subnets = await self._reach.ask_all("ec2", "describe_subnets", "Subnets", Filters=filters)
        if not subnets:
            return None
        seen = {
            raw["SubnetId"]: {"VpcId": raw["VpcId"], "AvailabilityZone": raw["AvailabilityZone"]}
            for raw in sorted(subnets, key=lambda raw: str(raw["SubnetId"]))
        }
        return Existing(
            kind=self.kind,
            name=one.name,
            properties={"Subnets": seen},
            attributes={"ids": list(seen), "vpc-id": next(iter(seen.values()))["VpcId"]},
        )


class ForeignTags:
    """Tags of ours on what somebody else owns."""

    kind = "ec2-tags"

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        found = [await self._found(one) for one in wanted]
        return [one for one in found if one is not None]

    async def create(self, resource: Resource) -> Attributes:
        await self._reach.ask(
            "ec2",
            "create_tags",
            Resources=list(resource.properties["ResourceIds"]),
            Tags=tag_list(resource.properties["Tags"]),
        )
        return {}

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        return await self.create(resource)

    async def remove(self, existing: Existing) -> None:
        if existing.properties["ResourceIds"]:
            await self._reach.remove(
                "ec2",
                "delete_tags",
                Resources=list(existing.properties["ResourceIds"]),
                Tags=tag_list(existing.properties["Tags"]),
            )

    async def _found(self, one: Resource) -> Existing | None:
        ids, tags = one.properties["ResourceIds"], one.properties["Tags"]
        if not isinstance(ids, list):
            return None
        raw: list[Raw] = await self._reach.ask_all(
            "ec2",
            "describe_tags",
            "Tags",
            Filters=[
                {"Name": "resource-id", "Values": list(ids)},
                {"Name": "key", "Values": sorted(tags)},
            ],
        )
        held = {(tag["ResourceId"], tag["Key"], tag["Value"]) for tag in raw}
        whole = [id_ for id_ in ids if all((id_, *tag) in held for tag in tags.items())]
        if not whole:
            return None
        seen = {"ResourceIds": whole, "Tags": dict(tags)}
        return Existing(kind=self.kind, name=one.name, properties=seen)
