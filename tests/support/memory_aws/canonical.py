"""The content of an account without ids: equal for accounts that mean the same."""

import gzip
import json
import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Any, Final

from dovetail.eks.plan.resource import NAME_TAG, OWNERSHIP_TAG
from dovetail.eks.resources.kubernetes.objects import APPLIED_HASH
from tests.support.memory_aws.account import MemoryAccount
from tests.support.memory_aws.refusals import Raw, tag_map

_ID: Final = re.compile(r"(?:[a-z]+-[0-9a-f]{17})")
_CLUSTER_ID: Final = re.compile(r"(?:https://)?[0-9a-f]{8}\.eks\.|/id/[0-9A-F]{8}")
_VERSIONS: Final = ("LatestVersionNumber", "DefaultVersionNumber")


def canonical(account: MemoryAccount) -> dict[str, Any]:
    """Return every resource by a stable name, with stable names in place of ids."""
    names: dict[str, str] = {}
    for key, raw in account.ec2.resources.items():
        name = f"{_name(key, raw)} (gone)" if _is_gone(raw) else _name(key, raw)
        # A duplicate must not hide behind the name of the original.
        names[key] = name if name not in names.values() else f"{name}#2"
    text = json.dumps(_content(account), sort_keys=True)
    text = _ID.sub(lambda match: names.get(match[0], match[0]), text)
    text = _CLUSTER_ID.sub("<cluster>", text)
    return dict(_sorted_lists(json.loads(text)))


def _name(key: str, raw: Raw) -> str:
    prefix, tags = key.partition("-")[0], tag_map(raw["Tags"])
    name = raw.get("GroupName") or raw.get("LaunchTemplateName") or tags.get(NAME_TAG)
    return f"{prefix}:{name}" if name else key


def _is_gone(raw: Raw) -> bool:
    return raw.get("State") in ("deleting", "deleted")


def _content(account: MemoryAccount) -> dict[str, Any]:
    content: dict[str, Any] = {}
    content.update(_ec2(account))
    content.update(_iam(account))
    for name, cluster in account.eks.clusters.items():
        content[f"cluster {name}"] = cluster
        for kind, members in account.eks.members[name].items():
            for key, member in members.items():
                content[f"{kind} {_member_name(kind, key, member)}"] = _member(account, member)
        content.update(_kubernetes(account, name))
    for name, queue in account.sqs.queues.items():
        content[f"queue {name}"] = queue
    for name, rule in account.events.rules.items():
        content[f"rule {name}"] = rule
    for name, group in account.logs.groups.items():
        content[f"log group {name}"] = group
    return content


def _ec2(account: MemoryAccount) -> Iterator[tuple[str, Any]]:
    ec2 = account.ec2
    for key, raw in ec2.resources.items():
        if _is_gone(raw):
            continue
        fields = {name: value for name, value in raw.items() if name not in _VERSIONS}
        fields["Tags"] = tag_map(raw["Tags"])
        if key in ec2.templates:
            fields["data"] = ec2.templates[key][-1]
        if key in ec2.dns:
            fields["dns"] = ec2.dns[key]
        if "Associations" in fields:
            fields["Associations"] = [entry["SubnetId"] for entry in fields["Associations"]]
        yield f"{key}", fields
    for rule in ec2.rules.values():
        fields = {name: value for name, value in rule.items() if name != "SecurityGroupRuleId"}
        fields["Tags"] = tag_map(rule["Tags"])
        identity = {name: value for name, value in fields.items() if name not in ("Tags", "Description")}
        yield f"rule {json.dumps(identity, sort_keys=True)}", fields


def _iam(account: MemoryAccount) -> Iterator[tuple[str, Any]]:
    iam = account.iam
    for name, role in iam.roles.items():
        yield f"role {name}", {**role, "Tags": tag_map(role["Tags"]), "attached": iam.attached[name]}
    for arn, policy in iam.policies.items():
        document = iam.versions[arn][policy["DefaultVersionId"]]["Document"]
        fields = {key: value for key, value in policy.items() if key != "DefaultVersionId"}
        yield f"policy {arn}", {**fields, "Tags": tag_map(policy["Tags"]), "document": document}
    for name, profile in iam.profiles.items():
        yield f"profile {name}", {**profile, "Tags": tag_map(profile["Tags"])}
    for arn, provider in iam.providers.items():
        yield f"provider {arn}", {**provider, "Tags": tag_map(provider["Tags"])}


def _member_name(kind: str, key: str, member: Raw) -> str:
    return f"{member['namespace']}/{member['serviceAccount']}" if kind == "association" else key


def _member(account: MemoryAccount, member: Raw) -> Raw:
    fields = {key: value for key, value in member.items() if not key.startswith("association")}
    if fields.get("configurationValues") == "{}":
        del fields["configurationValues"]
    template = fields.get("launchTemplate")
    if template is not None:
        is_latest = int(template["version"]) == len(account.ec2.templates[template["id"]])
        fields["launchTemplate"] = {"id": template["id"], "is_latest": is_latest}
    return fields


def _kubernetes(account: MemoryAccount, cluster: str) -> Iterator[tuple[str, Any]]:
    for key, item in account.kube.clusters[cluster].items():
        metadata = dict(item["metadata"])
        annotations = {
            name: value
            for name, value in (metadata.pop("annotations", None) or {}).items()
            if name != APPLIED_HASH
        }
        if annotations:
            metadata["annotations"] = annotations
        fields = {**item, "metadata": metadata}
        if "data" in item and "release" in item["data"]:
            fields["data"] = json.loads(gzip.decompress(b64decode(b64decode(item["data"]["release"]))))
        yield f"{cluster} {'/'.join(part for part in key if part)}", fields


def _sorted_lists(value: Any) -> Any:
    """Return the value with every list sorted: order means nothing in what we compare."""
    if isinstance(value, dict):
        return {key: _sorted_lists(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return sorted(
            (_sorted_lists(inner) for inner in value), key=lambda inner: json.dumps(inner, sort_keys=True)
        )
    return value


def differences(
    before: Any, after: Any, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield path, first and second value of everything that differs."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({**before, **after}):
            yield from differences(before.get(key), after.get(key), (*path, key))
        return
    yield path, before, after


def is_owned(fields: Any) -> bool:
    """Return True if a resource or object has an ownership tag or label."""
    tags = {**(fields.get("Tags") or {}), **(fields.get("tags") or {})}
    labels = (fields.get("metadata") or {}).get("labels") or {}
    return OWNERSHIP_TAG in tags or OWNERSHIP_TAG in labels
