"""SQS, EventBridge, CloudWatch Logs and KMS in memory."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from tests.support.memory_aws.refusals import Raw, refusal, tag_list, tag_map

if TYPE_CHECKING:
    from tests.support.memory_aws.account import MemoryAccount

_REGION: Final = "us-east-1"
_PLACE: Final = f"{_REGION}:123456789012"
_DELETED_RECENTLY: Final = timedelta(seconds=60)
_DEFAULTS: Final = {
    "MessageRetentionPeriod": "345600",
    "VisibilityTimeout": "30",
    "DelaySeconds": "0",
    "SqsManagedSseEnabled": "true",
}


class MemorySqs:
    """Queues by name."""

    def __init__(self, account: "MemoryAccount") -> None:
        self._account = account
        self.queues: dict[str, Raw] = {}
        self.deleted: dict[str, Any] = {}
        """Name → time of deletion."""

    def create_queue(self, *, QueueName: str, Attributes: dict[str, str], tags: dict[str, str]) -> Raw:
        given = {**_DEFAULTS, **Attributes}
        queue = self.queues.get(QueueName)
        if queue is not None and {key: queue["attributes"].get(key) for key in given} != given:
            raise refusal("QueueNameExists", "A queue already exists with the same name and other attributes")
        deleted = self.deleted.get(QueueName)
        if deleted is not None and self._account.now - deleted < _DELETED_RECENTLY:
            message = "You must wait 60 seconds after deleting a queue before you can create another"
            raise refusal("AWS.SimpleQueueService.QueueDeletedRecently", message)
        if queue is None:
            self.queues[QueueName] = {"attributes": given, "tags": dict(tags)}
        return {"QueueUrl": _url(QueueName)}

    def list_queues(self, *, QueueNamePrefix: str) -> Raw:
        return {"QueueUrls": [_url(name) for name in self.queues if name.startswith(QueueNamePrefix)]}

    def _queue(self, url: str) -> tuple[str, Raw]:
        name = url.rpartition("/")[2]
        if name not in self.queues:
            raise refusal("AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist.")
        return name, self.queues[name]

    def get_queue_attributes(self, *, QueueUrl: str, AttributeNames: list[str]) -> Raw:
        name, queue = self._queue(QueueUrl)
        attributes = {**queue["attributes"], "QueueArn": f"arn:aws:sqs:{_PLACE}:{name}"}
        if AttributeNames != ["All"]:
            attributes = {key: value for key, value in attributes.items() if key in AttributeNames}
        return {"Attributes": attributes}

    def set_queue_attributes(self, *, QueueUrl: str, Attributes: dict[str, str]) -> Raw:
        _, queue = self._queue(QueueUrl)
        merged = {**queue["attributes"], **Attributes}
        queue["attributes"] = {key: value for key, value in merged.items() if value != ""}
        return {}

    def list_queue_tags(self, *, QueueUrl: str) -> Raw:
        return {"Tags": dict(self._queue(QueueUrl)[1]["tags"])}

    def tag_queue(self, *, QueueUrl: str, Tags: dict[str, str]) -> Raw:
        _, queue = self._queue(QueueUrl)
        queue["tags"] = {**queue["tags"], **Tags}
        return {}

    def untag_queue(self, *, QueueUrl: str, TagKeys: list[str]) -> Raw:
        _, queue = self._queue(QueueUrl)
        queue["tags"] = {key: value for key, value in queue["tags"].items() if key not in TagKeys}
        return {}

    def delete_queue(self, *, QueueUrl: str) -> Raw:
        name, _ = self._queue(QueueUrl)
        del self.queues[name]
        self.deleted[name] = self._account.now
        return {}


class MemoryEvents:
    """EventBridge rules by name, with targets."""

    def __init__(self) -> None:
        self.rules: dict[str, Raw] = {}

    def put_rule(self, *, Name: str, Tags: Any = None, **fields: Any) -> Raw:
        rule = self.rules.get(Name, {"Name": Name, "Arn": f"arn:aws:events:{_PLACE}:rule/{Name}"})
        is_new = Name not in self.rules
        # PutRule replaces a rule; tags of one that exists are not changed.
        kept = {key: rule[key] for key in ("Name", "Arn", "tags", "targets") if key in rule}
        self.rules[Name] = {"tags": {}, "targets": {}, **kept, **fields}
        if is_new:
            self.rules[Name]["tags"] = tag_map(Tags)
        return {"RuleArn": rule["Arn"]}

    def list_rules(self, *, NamePrefix: str) -> Raw:
        return {
            "Rules": [
                {key: value for key, value in rule.items() if key not in ("tags", "targets")}
                for name, rule in self.rules.items()
                if name.startswith(NamePrefix)
            ]
        }

    def _rule(self, name: str) -> Raw:
        if name not in self.rules:
            raise refusal("ResourceNotFoundException", f"Rule {name} does not exist on EventBus default.")
        return self.rules[name]

    def list_tags_for_resource(self, *, ResourceARN: str) -> Raw:
        return {"Tags": tag_list(self._rule(ResourceARN.rpartition("/")[2])["tags"])}

    def tag_resource(self, *, ResourceARN: str, Tags: Any) -> Raw:
        rule = self._rule(ResourceARN.rpartition("/")[2])
        rule["tags"] = {**rule["tags"], **tag_map(Tags)}
        return {}

    def untag_resource(self, *, ResourceARN: str, TagKeys: list[str]) -> Raw:
        rule = self._rule(ResourceARN.rpartition("/")[2])
        rule["tags"] = {key: value for key, value in rule["tags"].items() if key not in TagKeys}
        return {}

    def list_targets_by_rule(self, *, Rule: str) -> Raw:
        return {"Targets": list(self._rule(Rule)["targets"].values())}

    def put_targets(self, *, Rule: str, Targets: list[Raw]) -> Raw:
        rule = self._rule(Rule)
        rule["targets"] = {**rule["targets"], **{target["Id"]: target for target in Targets}}
        return {"FailedEntryCount": 0}

    def remove_targets(self, *, Rule: str, Ids: list[str]) -> Raw:
        rule = self._rule(Rule)
        rule["targets"] = {key: target for key, target in rule["targets"].items() if key not in Ids}
        return {"FailedEntryCount": 0}

    def delete_rule(self, *, Name: str) -> Raw:
        if self.rules.get(Name, {}).get("targets"):
            raise refusal("ValidationException", "Rule can't be deleted since it has targets.")
        self.rules.pop(Name, None)
        return {}


class MemoryLogs:
    """Log groups by name."""

    def __init__(self) -> None:
        self.groups: dict[str, Raw] = {}

    def create_log_group(self, *, logGroupName: str, tags: dict[str, str] | None = None) -> Raw:
        if logGroupName in self.groups:
            raise refusal("ResourceAlreadyExistsException", "The specified log group already exists")
        self.groups[logGroupName] = {"tags": dict(tags or {}), "retention": 0}
        return {}

    def _group(self, name: str) -> Raw:
        if name not in self.groups:
            raise refusal("ResourceNotFoundException", "The specified log group does not exist.")
        return self.groups[name]

    def describe_log_groups(self, *, logGroupNamePrefix: str) -> Raw:
        return {
            "logGroups": [
                {
                    "logGroupName": name,
                    "arn": f"arn:aws:logs:{_PLACE}:log-group:{name}:*",
                    **({"retentionInDays": group["retention"]} if group["retention"] else {}),
                }
                for name, group in self.groups.items()
                if name.startswith(logGroupNamePrefix)
            ]
        }

    def list_tags_for_resource(self, *, resourceArn: str) -> Raw:
        return {"tags": dict(self._by_arn(resourceArn)["tags"])}

    def _by_arn(self, arn: str) -> Raw:
        assert not arn.endswith(":*"), "tag calls take the ARN without the suffix"
        return self._group(arn.partition(":log-group:")[2])

    def tag_resource(self, *, resourceArn: str, tags: dict[str, str]) -> Raw:
        group = self._by_arn(resourceArn)
        group["tags"] = {**group["tags"], **tags}
        return {}

    def untag_resource(self, *, resourceArn: str, tagKeys: list[str]) -> Raw:
        group = self._by_arn(resourceArn)
        group["tags"] = {key: value for key, value in group["tags"].items() if key not in tagKeys}
        return {}

    def put_retention_policy(self, *, logGroupName: str, retentionInDays: int) -> Raw:
        self._group(logGroupName)["retention"] = retentionInDays
        return {}

    def delete_log_group(self, *, logGroupName: str) -> Raw:
        self._group(logGroupName)
        del self.groups[logGroupName]
        return {}


class MemoryKms:
    """No keys of our own: files with encryption are not among the random ones."""

    def list_aliases(self) -> Raw:
        return {"Aliases": []}

    def list_keys(self) -> Raw:
        return {"Keys": []}


def _url(name: str) -> str:
    return f"https://sqs.{_REGION}.amazonaws.com/123456789012/{name}"
