"""The SQS queue of interruptions, its policy, and the rules that feed it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dovetail.eks.aws_client import BUSY, Raw, Reach, if_there
from dovetail.eks.plan.resource import OWNER_TAG, Existing, Resource
from dovetail.eks.resources.handler import Attributes
from dovetail.eks.resources.property_names import differing, tag_list, tag_map

_NUMBERS: Final = ("MessageRetentionPeriod", "VisibilityTimeout", "DelaySeconds")
_SWITCHES: Final = ("SqsManagedSseEnabled",)
_TEXTS: Final = ("KmsMasterKeyId",)


class Queues:
    """Queues by name."""

    kind = "sqs-queue"

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        urls = await self._reach.ask_all("sqs", "list_queues", "QueueUrls", QueueNamePrefix=cluster)
        names = {one.name for one in wanted}
        found: list[Existing] = []
        for url in urls:
            one = await self._found(url)
            if one and (one.name in names or one.tags.get(OWNER_TAG) == cluster):
                found.append(one)
        return found

    async def create(self, resource: Resource) -> Attributes:
        # Asked for twice with the same attributes, SQS gives the same queue.
        made = await self._reach.patiently(
            "sqs",
            "create_queue",
            QueueName=resource.name,
            Attributes=_attributes(resource.properties),
            tags=dict(resource.tags),
        )
        one = await self._found(made["QueueUrl"])
        return one.attributes if one else {"url": made["QueueUrl"]}

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        names, url = differing(existing, resource), existing.attributes["url"]
        if "Tags" in names:
            await self._reach.ask("sqs", "tag_queue", QueueUrl=url, Tags=dict(resource.tags))
        changed = {name: resource.properties[name] for name in names - {"Tags"}}
        if changed:
            await self._reach.ask(
                "sqs", "set_queue_attributes", QueueUrl=url, Attributes=_attributes(changed)
            )
        return existing.attributes

    async def remove(self, existing: Existing) -> None:
        await self._reach.remove("sqs", "delete_queue", QueueUrl=existing.attributes["url"])

    async def _found(self, url: str) -> Existing | None:
        told = await self._reach.ask_if_there(
            "sqs", "get_queue_attributes", QueueUrl=url, AttributeNames=["All"]
        )
        tags = await self._reach.ask_if_there("sqs", "list_queue_tags", QueueUrl=url)
        if told is None or tags is None:
            return None
        raw = told["Attributes"]
        name = url.rpartition("/")[2]
        seen: dict[str, Any] = {"QueueName": name}
        seen |= {key: int(raw[key]) for key in _NUMBERS if key in raw}
        seen |= {key: raw[key].lower() == "true" for key in _SWITCHES if key in raw}
        seen |= {key: raw.get(key, "") for key in _TEXTS}
        known = {"arn": raw["QueueArn"], "name": name, "url": url}
        return Existing(
            kind=self.kind,
            name=name,
            properties=seen,
            tags=tags.get("Tags", {}),
            attributes=known,
        )


class QueuePolicies:
    """Who may put messages into a queue."""

    kind = "sqs-queue-policy"

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        found: list[Existing] = []
        for one in wanted:
            url = one.properties["Queues"][0]
            told = await self._reach.ask_if_there(
                "sqs", "get_queue_attributes", QueueUrl=url, AttributeNames=["Policy"]
            )
            text = ((told or {}).get("Attributes") or {}).get("Policy")
            if text:
                seen = {"Queues": [url], "PolicyDocument": json.loads(text)}
                found.append(Existing(kind=self.kind, name=one.name, properties=seen))
        return found

    async def create(self, resource: Resource) -> Attributes:
        text = json.dumps(resource.properties["PolicyDocument"])
        for url in resource.properties["Queues"]:
            await self._reach.ask(
                "sqs", "set_queue_attributes", QueueUrl=url, Attributes={"Policy": text}
            )
        return {}

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        return await self.create(resource)

    async def remove(self, existing: Existing) -> None:
        for url in existing.properties["Queues"]:
            await self._reach.remove(
                "sqs", "set_queue_attributes", QueueUrl=url, Attributes={"Policy": ""}
            )


class EventRules:
    """EventBridge rules with their targets."""

    kind = "event-rule"

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        rules = await self._reach.ask_all("events", "list_rules", "Rules", NamePrefix=cluster)
        names = {one.name for one in wanted}
        found = [await self._found(raw) for raw in rules]
        return [one for one in found if one.name in names or one.tags.get(OWNER_TAG) == cluster]

    async def create(self, resource: Resource) -> Attributes:
        wanted = resource.properties
        made = await self._reach.patiently(
            "events",
            "put_rule",
            Name=resource.name,
            Description=wanted.get("Description", ""),
            EventPattern=json.dumps(wanted["EventPattern"]),
            State=wanted.get("State", "ENABLED"),
            Tags=tag_list(resource.tags),
        )
        await self._aim(resource)
        return {"arn": made["RuleArn"]}

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        names, wanted = differing(existing, resource), resource.properties
        if "Tags" in names:
            arn, tags = existing.attributes["arn"], tag_list(resource.tags)
            await self._reach.ask("events", "tag_resource", ResourceARN=arn, Tags=tags)
        if names & {"Description", "EventPattern", "State"}:
            await self._reach.ask(
                "events",
                "put_rule",
                Name=resource.name,
                Description=wanted.get("Description", ""),
                EventPattern=json.dumps(wanted["EventPattern"]),
                State=wanted.get("State", "ENABLED"),
            )
        if "Targets" in names:
            await self._aim(resource)
        return existing.attributes

    async def remove(self, existing: Existing) -> None:
        work = self._reach.ask("events", "list_targets_by_rule", Rule=existing.name)
        told = await if_there(work)
        if told is None:
            return
        ids = [one["Id"] for one in told["Targets"]]
        if ids:
            await self._reach.remove("events", "remove_targets", Rule=existing.name, Ids=ids)
        await self._reach.remove("events", "delete_rule", Name=existing.name)

    async def _aim(self, resource: Resource) -> None:
        targets = [dict(one) for one in resource.properties.get("Targets", ())]
        if targets:
            await self._reach.patiently(
                "events", "put_targets", busy=BUSY, Rule=resource.name, Targets=targets
            )

    async def _found(self, raw: Raw) -> Existing:
        tags = await self._reach.ask("events", "list_tags_for_resource", ResourceARN=raw["Arn"])
        targets = await self._reach.ask("events", "list_targets_by_rule", Rule=raw["Name"])
        return Existing(
            kind=self.kind,
            name=raw["Name"],
            properties={
                "Name": raw["Name"],
                "Description": raw.get("Description", ""),
                "EventPattern": json.loads(raw.get("EventPattern", "{}")),
                "State": raw.get("State", ""),
                "Targets": [{"Id": one["Id"], "Arn": one["Arn"]} for one in targets["Targets"]],
            },
            tags=tag_map(tags.get("Tags")),
            attributes={"arn": raw["Arn"]},
        )


def _attributes(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return a queue's properties as SQS wants them: all text."""
    names = (*_NUMBERS, *_SWITCHES, *_TEXTS)
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in properties.items()
        if name in names
    }
