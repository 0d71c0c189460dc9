"""Handler for CloudWatch log groups of control planes."""

from collections.abc import Iterable, Sequence

from dovetail.eks.aws_client import Raw
from dovetail.eks.plan.resource import OWNERSHIP_TAG, DesiredResource, ObservedResource
from dovetail.eks.resources.handler import Attributes, AwsHandler
from dovetail.eks.resources.property_names import changed_properties
from dovetail.eks.resources.tags import write_tags


class LogGroupHandler(AwsHandler):
    """Log groups, by name."""

    kind = "log-group"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        names = {resource.name for resource in desired}
        prefix = f"/aws/eks/{cluster}/"
        groups: list[Raw] = await self._aws.list_all(
            "logs", "describe_log_groups", "logGroups", logGroupNamePrefix=prefix
        )
        observed = [await self._to_observed(raw) for raw in groups]
        return [
            group for group in observed if group.name in names or group.tags.get(OWNERSHIP_TAG) == cluster
        ]

    async def create(self, resource: DesiredResource) -> Attributes:
        await self._aws.create(
            "logs", "create_log_group", logGroupName=resource.name, tags=dict(resource.tags)
        )
        await self._set_retention(resource)
        account = self._aws.account
        prefix = f"arn:{account.partition}:logs:{account.region}:{account.account}"
        return {"arn": f"{prefix}:log-group:{resource.name}:*"}

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        names = changed_properties(observed, resource)
        if "Tags" in names:
            identity = {"resourceArn": observed.attributes["arn"].removesuffix(":*")}
            await write_tags(self._aws, "logs", "resource", identity, observed=observed, resource=resource)
        if "RetentionInDays" in names:
            await self._set_retention(resource)
        return observed.attributes

    async def delete(self, observed: ObservedResource) -> None:
        await self._aws.delete("logs", "delete_log_group", logGroupName=observed.name)

    async def _set_retention(self, resource: DesiredResource) -> None:
        days = resource.properties.get("RetentionInDays")
        if days:
            await self._aws.call(
                "logs", "put_retention_policy", logGroupName=resource.name, retentionInDays=days
            )

    async def _to_observed(self, raw: Raw) -> ObservedResource:
        # Tag calls take the ARN without the suffix ":*", references need it.
        arn = raw["arn"].removesuffix(":*")
        tags = await self._aws.call("logs", "list_tags_for_resource", resourceArn=arn)
        return ObservedResource(
            kind=self.kind,
            name=raw["logGroupName"],
            properties={
                "LogGroupName": raw["logGroupName"],
                "RetentionInDays": raw.get("retentionInDays", 0),
            },
            tags=tags.get("tags", {}),
            attributes={"arn": f"{arn}:*"},
        )
