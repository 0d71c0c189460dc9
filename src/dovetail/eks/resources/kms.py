"""Handlers for the KMS key that encrypts Kubernetes Secrets, and for its alias.

KMS cannot search by tag. A key is found by its alias, which has the cluster's name.
Only if there is no alias yet, for example after an interrupted run, are the tags of all
keys read.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dovetail.aws.errors import AwsError, ErrorKind
from dovetail.eks.aws_client import Raw
from dovetail.eks.desired.names import Names
from dovetail.eks.plan.resource import NAME_TAG, OWNERSHIP_TAG, DesiredResource, ObservedResource
from dovetail.eks.resources.handler import Attributes, AwsHandler
from dovetail.eks.resources.property_names import changed_properties

DELETION_DAYS: Final = 30
"""Days until KMS deletes a key, in which the deletion can be cancelled; the most that KMS has."""
_GONE_STATES: Final = frozenset({"PendingDeletion", "PendingReplicaDeletion"})


class _KmsHandler(AwsHandler):
    async def _find_alias(self, cluster: str) -> Raw | None:
        aliases: list[Raw] = await self._aws.list_all("kms", "list_aliases", "Aliases")
        name = Names(cluster, "", "").key_alias
        return next((alias for alias in aliases if alias["AliasName"] == name), None)

    async def _find_alias_if_allowed(self, cluster: str, desired: Sequence[DesiredResource]) -> Raw | None:
        """Return the alias; a file without encryption needs no permission for KMS."""
        try:
            return await self._find_alias(cluster)
        except AwsError as error:
            if desired or not _is_access_denied(error):
                raise
            return None


class KmsKeyHandler(_KmsHandler):
    """Keys; a deleted key is scheduled for deletion and counts as gone."""

    kind = "kms-key"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        alias = await self._find_alias_if_allowed(cluster, desired)
        if alias is not None and alias.get("TargetKeyId"):
            observed = await self._observe_key(alias["TargetKeyId"])
            if observed is not None:
                return [observed]
        return await self._scan(cluster) if desired else []

    async def create(self, resource: DesiredResource) -> Attributes:
        keys = await self._own_keys(resource)
        if not keys:
            await self._aws.call(
                "kms",
                "create_key",
                Description=resource.properties["Description"],
                Tags=_encode_tags(resource.tags),
            )
            # CreateKey takes no client token: a request whose response was lost made a second key.
            keys = await self._aws.wait_for(
                "the KMS key of the cluster", lambda: self._poll_own_keys(resource)
            )
        for duplicate in keys[1:]:
            await self._schedule_deletion(duplicate["id"])
        await self._set_rotation(keys[0]["id"], resource)
        return keys[0]

    async def _poll_own_keys(self, resource: DesiredResource) -> list[Attributes] | None:
        return await self._own_keys(resource) or None

    async def _own_keys(self, resource: DesiredResource) -> list[Attributes]:
        """Return the keys with this name, in an order that every run agrees on."""
        owned = await self._scan(resource.tags[OWNERSHIP_TAG])
        matching = [key.attributes for key in owned if key.name == resource.name]
        return sorted(matching, key=lambda attributes: str(attributes["id"]))

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        names, key = changed_properties(observed, resource), observed.attributes["id"]
        if "Tags" in names:
            await self._aws.call("kms", "tag_resource", KeyId=key, Tags=_encode_tags(resource.tags))
        if "EnableKeyRotation" in names:
            await self._set_rotation(key, resource)
        if "Description" in names:
            description = resource.properties["Description"]
            await self._aws.call("kms", "update_key_description", KeyId=key, Description=description)
        return observed.attributes

    async def delete(self, observed: ObservedResource) -> None:
        await self._schedule_deletion(observed.attributes["id"])

    async def _schedule_deletion(self, key: str) -> None:
        await self._aws.delete("kms", "schedule_key_deletion", KeyId=key, PendingWindowInDays=DELETION_DAYS)

    async def _set_rotation(self, key: str, resource: DesiredResource) -> None:
        enabled = resource.properties["EnableKeyRotation"]
        method = "enable_key_rotation" if enabled else "disable_key_rotation"
        await self._aws.retry_until_visible(lambda: self._aws.call("kms", method, KeyId=key))

    async def _scan(self, cluster: str) -> list[ObservedResource]:
        """Return the keys that have the cluster's tag, among all keys of the account."""
        keys = await self._aws.list_all("kms", "list_keys", "Keys")
        results = await self._aws.loop.gather([self._tags(raw["KeyId"]) for raw in keys])
        errors = [result for result in results if isinstance(result, Exception)]
        # A key policy can deny access to single keys; not to all, if the permission is there.
        if errors and (len(errors) == len(keys) or not all(map(_is_access_denied, errors))):
            raise errors[0]
        owned = [
            raw["KeyId"]
            for raw, tags in zip(keys, results, strict=True)
            if not isinstance(tags, Exception) and tags.get(OWNERSHIP_TAG) == cluster
        ]
        observed = await self._aws.gather([self._observe_key(key) for key in owned])
        return [resource for resource in observed if resource is not None]

    async def _tags(self, key: str) -> dict[str, str]:
        items = await self._aws.list_all("kms", "list_resource_tags", "Tags", KeyId=key)
        return {tag["TagKey"]: tag["TagValue"] for tag in items}

    async def _observe_key(self, key: str) -> ObservedResource | None:
        response = await self._aws.call_or_none("kms", "describe_key", KeyId=key)
        if response is None or response["KeyMetadata"]["KeyState"] in _GONE_STATES:
            return None
        metadata, tags = response["KeyMetadata"], await self._tags(key)
        rotation = await self._aws.call("kms", "get_key_rotation_status", KeyId=key)
        return ObservedResource(
            kind=self.kind,
            name=tags.get(NAME_TAG, "secrets"),
            properties={
                "Description": metadata.get("Description", ""),
                "EnableKeyRotation": rotation["KeyRotationEnabled"],
            },
            tags=tags,
            attributes={"arn": metadata["Arn"], "id": metadata["KeyId"]},
        )


class KmsAliasHandler(_KmsHandler):
    """The alias of a cluster's key."""

    kind = "kms-alias"

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        alias = await self._find_alias_if_allowed(cluster, desired)
        if alias is None:
            return []
        properties = {"AliasName": alias["AliasName"], "TargetKeyId": alias.get("TargetKeyId", "")}
        return [ObservedResource(kind=self.kind, name=alias["AliasName"], properties=properties)]

    async def create(self, resource: DesiredResource) -> Attributes:
        await self._aws.create("kms", "create_alias", **resource.properties)
        return {}

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        await self._aws.call("kms", "update_alias", **resource.properties)
        return {}

    async def delete(self, observed: ObservedResource) -> None:
        await self._aws.delete("kms", "delete_alias", AliasName=observed.name)


def _encode_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"TagKey": key, "TagValue": value} for key, value in tags.items()]


def _is_access_denied(error: Exception) -> bool:
    return isinstance(error, AwsError) and error.kind is ErrorKind.ACCESS_DENIED
