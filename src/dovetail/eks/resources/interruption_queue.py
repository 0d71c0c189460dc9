"""Handlers for the SQS interruption queue, its policy and its EventBridge rules."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dovetail.eks.aws_client import Raw
from dovetail.eks.plan.resource import OWNERSHIP_TAG, DesiredResource, ObservedResource
from dovetail.eks.resources.handler import Attributes, AwsHandler
from dovetail.eks.resources.property_names import changed_properties, tag_list, tag_map
from dovetail.eks.resources.tags import write_tags
from dovetail.errors import DovetailError

# Queue attributes by type; SQS reads and writes all of them as text.
_INTEGERS: Final = ("MessageRetentionPeriod", "VisibilityTimeout", "DelaySeconds")
_BOOLEANS: Final = ("SqsManagedSseEnabled",)
_TEXTS: Final = ("KmsMasterKeyId",)


class QueueHandler(AwsHandler):
    """SQS queues, by name."""

    kind = "sqs-queue"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        urls = await self._aws.list_all("sqs", "list_queues", "QueueUrls", QueueNamePrefix=cluster)
        names = {resource.name for resource in desired}
        queues: list[ObservedResource] = []
        for url in urls:
            queue = await self._observe_queue(url)
            if queue and (queue.name in names or queue.tags.get(OWNERSHIP_TAG) == cluster):
                queues.append(queue)
        return queues

    async def create(self, resource: DesiredResource) -> Attributes:
        # Idempotent: SQS returns the same queue for the same name and attributes.
        response = await self._aws.call_with_retry(
            "sqs",
            "create_queue",
            QueueName=resource.name,
            Attributes=_encode_attributes(resource.properties),
            tags=dict(resource.tags),
        )
        url = response.get("QueueUrl")
        if not url:
            raise DovetailError(f"CreateQueue: the response of SQS for {resource.name} has no QueueUrl")
        queue = await self._observe_queue(url)
        return queue.attributes if queue else {"url": url}

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        names, url = changed_properties(observed, resource), observed.attributes["url"]
        if "Tags" in names:
            identity = {"QueueUrl": url}
            await write_tags(self._aws, "sqs", "queue", identity, observed=observed, resource=resource)
        changed = {name: resource.properties[name] for name in names - {"Tags"}}
        if changed:
            await self._aws.call(
                "sqs", "set_queue_attributes", QueueUrl=url, Attributes=_encode_attributes(changed)
            )
        return observed.attributes

    async def delete(self, observed: ObservedResource) -> None:
        await self._aws.delete("sqs", "delete_queue", QueueUrl=observed.attributes["url"])

    async def _observe_queue(self, url: str) -> ObservedResource | None:
        response = await self._aws.call_or_none(
            "sqs", "get_queue_attributes", QueueUrl=url, AttributeNames=["All"]
        )
        tags = await self._aws.call_or_none("sqs", "list_queue_tags", QueueUrl=url)
        if response is None or tags is None:
            return None
        raw = response.get("Attributes") or {}
        if "QueueArn" not in raw:
            raise DovetailError(f"GetQueueAttributes: the response of SQS for {url} has no QueueArn")
        name = url.rpartition("/")[2]
        properties: dict[str, Any] = {"QueueName": name}
        properties |= {key: int(raw[key]) for key in _INTEGERS if key in raw}
        properties |= {key: raw[key].lower() == "true" for key in _BOOLEANS if key in raw}
        properties |= {key: raw.get(key, "") for key in _TEXTS}
        return ObservedResource(
            kind=self.kind,
            name=name,
            properties=properties,
            tags=tags.get("Tags", {}),
            attributes={"arn": raw["QueueArn"], "name": name, "url": url},
        )


class QueuePolicyHandler(AwsHandler):
    """Resource policies of queues."""

    kind = "sqs-queue-policy"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        policies: list[ObservedResource] = []
        for resource in desired:
            url = resource.properties["Queues"][0]
            response = await self._aws.call_or_none(
                "sqs", "get_queue_attributes", QueueUrl=url, AttributeNames=["Policy"]
            )
            text = ((response or {}).get("Attributes") or {}).get("Policy")
            if text:
                properties = {"Queues": [url], "PolicyDocument": json.loads(text)}
                policies.append(ObservedResource(kind=self.kind, name=resource.name, properties=properties))
        return policies

    async def create(self, resource: DesiredResource) -> Attributes:
        text = json.dumps(resource.properties["PolicyDocument"])
        for url in resource.properties["Queues"]:
            await self._aws.call("sqs", "set_queue_attributes", QueueUrl=url, Attributes={"Policy": text})
        return {}

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        return await self.create(resource)

    async def delete(self, observed: ObservedResource) -> None:
        for url in observed.properties["Queues"]:
            await self._aws.delete("sqs", "set_queue_attributes", QueueUrl=url, Attributes={"Policy": ""})


class EventRuleHandler(AwsHandler):
    """EventBridge rules with their targets."""

    kind = "event-rule"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        raw_rules = await self._aws.list_all("events", "list_rules", "Rules", NamePrefix=cluster)
        names = {resource.name for resource in desired}
        rules = [await self._observe_rule(raw) for raw in raw_rules]
        return [rule for rule in rules if rule.name in names or rule.tags.get(OWNERSHIP_TAG) == cluster]

    async def create(self, resource: DesiredResource) -> Attributes:
        tags = tag_list(resource.tags)
        response = await self._aws.call_with_retry("events", "put_rule", **_encode_rule(resource), Tags=tags)
        await self._put_targets(resource)
        return {"arn": response["RuleArn"]}

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        names = changed_properties(observed, resource)
        if "Tags" in names:
            identity = {"ResourceARN": observed.attributes["arn"]}
            await write_tags(self._aws, "events", "resource", identity, observed=observed, resource=resource)
        if names & {"Description", "EventPattern", "State"}:
            await self._aws.call("events", "put_rule", **_encode_rule(resource))
        if "Targets" in names:
            await self._put_targets(resource)
        return observed.attributes

    async def delete(self, observed: ObservedResource) -> None:
        response = await self._aws.call_or_none("events", "list_targets_by_rule", Rule=observed.name)
        if response is None:
            return
        ids = [target["Id"] for target in response["Targets"]]
        if ids:
            await self._aws.delete("events", "remove_targets", Rule=observed.name, Ids=ids)
        await self._aws.delete("events", "delete_rule", Name=observed.name)

    async def _put_targets(self, resource: DesiredResource) -> None:
        targets = [dict(target) for target in resource.properties.get("Targets", ())]
        if targets:
            await self._aws.call_with_retry("events", "put_targets", Rule=resource.name, Targets=targets)

    async def _observe_rule(self, raw: Raw) -> ObservedResource:
        tags = await self._aws.call("events", "list_tags_for_resource", ResourceARN=raw["Arn"])
        targets = await self._aws.call("events", "list_targets_by_rule", Rule=raw["Name"])
        return ObservedResource(
            kind=self.kind,
            name=raw["Name"],
            properties={
                "Name": raw["Name"],
                "Description": raw.get("Description", ""),
                "EventPattern": json.loads(raw.get("EventPattern", "{}")),
                "State": raw.get("State", ""),
                "Targets": [{"Id": target["Id"], "Arn": target["Arn"]} for target in targets["Targets"]],
            },
            tags=tag_map(tags.get("Tags")),
            attributes={"arn": raw["Arn"]},
        )


def _encode_rule(resource: DesiredResource) -> Raw:
    desired = resource.properties
    return {
        "Name": resource.name,
        "Description": desired.get("Description", ""),
        "EventPattern": json.dumps(desired["EventPattern"]),
        "State": desired.get("State", "ENABLED"),
    }


def _encode_attributes(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties of a queue as SQS attributes: all text."""
    names = (*_INTEGERS, *_BOOLEANS, *_TEXTS)
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in properties.items()
        if name in names
    }
