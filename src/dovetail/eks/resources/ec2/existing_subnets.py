"""Handlers for existing subnets, and for tags on resources that others own."""

from collections.abc import Iterable, Sequence

from dovetail.eks.aws_client import Raw, tag_filter
from dovetail.eks.plan.resource import DesiredResource, ObservedResource
from dovetail.eks.resources.handler import Attributes, AwsHandler, InvalidStepError
from dovetail.eks.resources.property_names import tag_list


class SubnetSelectionHandler(AwsHandler):
    """Subnets selected by ids or tags; read-only."""

    kind = "subnet-selection"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        selections = [await self._select(resource) for resource in desired]
        return [selection for selection in selections if selection is not None]

    async def create(self, resource: DesiredResource) -> Attributes:
        raise InvalidStepError(f"{resource.address} is read-only")

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        raise InvalidStepError(f"{resource.address} is read-only")

    async def delete(self, observed: ObservedResource) -> None:
        raise InvalidStepError(f"{observed.address} is read-only")

    async def _select(self, resource: DesiredResource) -> ObservedResource | None:
        ids = resource.properties.get("Ids")
        filters = [{"Name": "subnet-id", "Values": list(ids)}] if ids else []
        filters += [tag_filter(key, value) for key, value in resource.properties.get("Tags", {}).items()]
        # Ids are not filtered by VPC, so that a subnet in another VPC can be reported.
        if resource.properties.get("VpcId") and not ids:
            filters.append({"Name": "vpc-id", "Values": [resource.properties["VpcId"]]})
        items = await self._aws.describe_ec2("Subnets", *filters)
        if not items:
            return None
        subnets = {
            raw["SubnetId"]: {
                "VpcId": raw["VpcId"],
                "AvailabilityZone": raw["AvailabilityZone"],
                "HasIpv6": bool(raw.get("Ipv6CidrBlockAssociationSet")),
            }
            for raw in sorted(items, key=lambda raw: str(raw["SubnetId"]))
        }
        return ObservedResource(
            kind=self.kind,
            name=resource.name,
            properties={"Subnets": subnets},
            attributes={"ids": list(subnets), "vpc-id": next(iter(subnets.values()))["VpcId"]},
        )


class Ec2TagsHandler(AwsHandler):
    """Our tags on resources that others own."""

    kind = "ec2-tags"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        observed = [await self._observe_tags(resource) for resource in desired]
        return [resource for resource in observed if resource is not None]

    async def create(self, resource: DesiredResource) -> Attributes:
        await self._aws.call(
            "ec2",
            "create_tags",
            Resources=list(resource.properties["ResourceIds"]),
            Tags=tag_list(resource.properties["Tags"]),
        )
        return {}

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        return await self.create(resource)

    async def delete(self, observed: ObservedResource) -> None:
        if observed.properties["ResourceIds"]:
            await self._aws.delete(
                "ec2",
                "delete_tags",
                Resources=list(observed.properties["ResourceIds"]),
                Tags=tag_list(observed.properties["Tags"]),
            )

    async def _observe_tags(self, resource: DesiredResource) -> ObservedResource | None:
        ids, tags = resource.properties["ResourceIds"], resource.properties["Tags"]
        if not isinstance(ids, list):
            return None  # An unresolved reference.
        items: list[Raw] = await self._aws.list_all(
            "ec2",
            "describe_tags",
            "Tags",
            Filters=[{"Name": "resource-id", "Values": list(ids)}, {"Name": "key", "Values": sorted(tags)}],
        )
        present = {(tag["ResourceId"], tag["Key"], tag["Value"]) for tag in items}
        tagged_ids = [
            resource_id for resource_id in ids if all((resource_id, *tag) in present for tag in tags.items())
        ]
        foreign = {tag["ResourceId"]: tag["Value"] for tag in items if tag["Value"] != tags[tag["Key"]]}
        if not tagged_ids and not foreign:
            return None
        return ObservedResource(
            kind=self.kind,
            name=resource.name,
            properties={"ResourceIds": tagged_ids, "Tags": dict(tags)},
            attributes={"foreign": foreign},
        )
