"""CloudWatch log groups of control planes."""

from collections.abc import Iterable, Sequence

from dovetail.eks.aws_client import Raw, Reach
from dovetail.eks.plan.resource import Existing, Resource
from dovetail.eks.resources.handler import Attributes
from dovetail.eks.resources.property_names import differing


class LogGroups:
    """Log groups by name."""

    kind = "log-group"

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        names = {one.name for one in wanted}
        prefix = f"/aws/eks/{cluster}/"
        groups: list[Raw] = await self._reach.ask_all(
            "logs", "describe_log_groups", "logGroups", logGroupNamePrefix=prefix
        )
        return [await self._found(raw) for raw in groups if raw["logGroupName"] in names]

    async def create(self, resource: Resource) -> Attributes:
        await self._reach.make(
            "logs", "create_log_group", logGroupName=resource.name, tags=dict(resource.tags)
        )
        await self._keep_for(resource)
        account = self._reach.account
        where = f"arn:{account.partition}:logs:{account.region}:{account.account}"
        return {"arn": f"{where}:log-group:{resource.name}:*"}

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        names = differing(existing, resource)
        if "Tags" in names:
            arn = existing.attributes["arn"].removesuffix(":*")
            await self._reach.ask("logs", "tag_resource", resourceArn=arn, tags=dict(resource.tags))
        if "RetentionInDays" in names:
            await self._keep_for(resource)
        return existing.attributes

    async def remove(self, existing: Existing) -> None:
        await self._reach.remove("logs", "delete_log_group", logGroupName=existing.name)

    async def _keep_for(self, resource: Resource) -> None:
        days = resource.properties.get("RetentionInDays")
        if days:
            await self._reach.ask(
                "logs", "put_retention_policy", logGroupName=resource.name, retentionInDays=days
            )

    async def _found(self, raw: Raw) -> Existing:
        arn = raw["arn"].removesuffix(":*")
        tags = await self._reach.ask("logs", "list_tags_for_resource", resourceArn=arn)
        return Existing(
            kind=self.kind,
            name=raw["logGroupName"],
            properties={
                "LogGroupName": raw["logGroupName"],
                "RetentionInDays": raw.get("retentionInDays", 0),
            },
            tags=tags.get("tags", {}),
            attributes={"arn": f"{arn}:*"},
        )
