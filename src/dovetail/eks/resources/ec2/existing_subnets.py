"""Handlers for existing subnets, and for tags on resources that others own."""

from collections.abc import Iterable, Sequence
from typing import Final

from dovetail.eks.aws_client import Raw, tag_filter
from dovetail.eks.desired.names import DISCOVERY
from dovetail.eks.plan.resource import DesiredResource, ObservedResource
from dovetail.eks.resources.handler import Attributes, AwsHandler, InvalidStepError
from dovetail.eks.resources.property_names import tag_list

_OURS_TAG: Final = "dovetail.sh/discovery"
"""Beside a tag that we have added: the name of the cluster."""
_ID_PREFIXES: Final = {"subnets": "subnet-", "security-groups": "sg-"}


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
    """Our tags on resources that others own.

    Beside them is a tag that marks them as ours. Tags without it were there before:
    they are used, and never deleted.
    """

    kind = "ec2-tags"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        marked = await self._find_marked(cluster)
        by_name = {resource.name: resource for resource in desired}
        observed = [
            await self._observe_tags(
                name, by_name.get(name), [each for each in marked if each.startswith(prefix)]
            )
            for name, prefix in _ID_PREFIXES.items()
        ]
        return [resource for resource in observed if resource is not None]

    async def create(self, resource: DesiredResource) -> Attributes:
        ids, tags = list(resource.properties["ResourceIds"]), resource.properties["Tags"]
        present = {tag["ResourceId"] for tag in await self._describe(ids, tags)}
        untagged = [resource_id for resource_id in ids if resource_id not in present]
        if untagged:
            ours = tag_list({**tags, _OURS_TAG: self._aws.cluster})
            await self._aws.call("ec2", "create_tags", Resources=untagged, Tags=ours)
        return {}

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        dropped = set(observed.attributes["marked"]) - set(resource.properties["ResourceIds"])
        await self._delete_tags(sorted(dropped), observed)
        return await self.create(resource)

    async def delete(self, observed: ObservedResource) -> None:
        await self._delete_tags(observed.attributes["marked"], observed)

    async def _delete_tags(self, ids: list[str], observed: ObservedResource) -> None:
        if ids:
            tags = tag_list({**observed.properties["Tags"], _OURS_TAG: self._aws.cluster})
            await self._aws.delete("ec2", "delete_tags", Resources=ids, Tags=tags)

    async def _find_marked(self, cluster: str) -> list[str]:
        """Return the ids of resources that we have tagged for the cluster."""
        filters = [{"Name": "key", "Values": [_OURS_TAG]}, {"Name": "value", "Values": [cluster]}]
        items = await self._aws.list_all("ec2", "describe_tags", "Tags", Filters=filters)
        return sorted(tag["ResourceId"] for tag in items)

    async def _describe(self, ids: Sequence[str], tags: Iterable[str]) -> list[Raw]:
        filters = [{"Name": "resource-id", "Values": list(ids)}, {"Name": "key", "Values": sorted(tags)}]
        items: list[Raw] = await self._aws.list_all("ec2", "describe_tags", "Tags", Filters=filters)
        return items

    async def _observe_tags(
        self, name: str, resource: DesiredResource | None, marked: list[str]
    ) -> ObservedResource | None:
        """Return the tagged resources: of the desired ones all, of others those with our tags."""
        tags = resource.properties["Tags"] if resource is not None else {DISCOVERY: self._aws.cluster}
        ids = resource.properties["ResourceIds"] if resource is not None else []
        if not isinstance(ids, list):
            ids = []  # An unresolved reference.
        items = await self._describe(ids, tags) if ids else []
        present = {(tag["ResourceId"], tag["Key"], tag["Value"]) for tag in items}
        tagged_ids = [
            resource_id for resource_id in ids if all((resource_id, *tag) in present for tag in tags.items())
        ]
        tagged_ids += [resource_id for resource_id in marked if resource_id not in ids]
        foreign = {tag["ResourceId"]: tag["Value"] for tag in items if tag["Value"] != tags[tag["Key"]]}
        if not tagged_ids and not foreign:
            return None
        return ObservedResource(
            kind=self.kind,
            name=name,
            properties={"ResourceIds": tagged_ids, "Tags": dict(tags)},
            attributes={"foreign": foreign, "marked": marked},
        )
