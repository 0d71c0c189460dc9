"""IAM's managed policies, with the roles of others that they are attached to."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from dovetail.eks.aws_client import Raw, Reach
from dovetail.eks.plan.known_attributes import predicted
from dovetail.eks.plan.resource import Existing, Resource
from dovetail.eks.resources.handler import Attributes
from dovetail.eks.resources.iam.base import document, known, write_tags
from dovetail.eks.resources.property_names import differing, tag_list, tag_map

_MOST_BEFORE_ONE_MORE: Final = 4
"""A policy has at most five versions."""


class Policies:
    """Policies by ARN, which name and path decide."""

    kind = "iam-policy"

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        listed = await self._reach.ask_all("iam", "list_policies", "Policies", Scope="Local")
        arns = {raw["Arn"] for raw in listed if raw["PolicyName"].startswith(self._reach.prefixes)}
        arns.update(self._arn(one) for one in wanted)
        found = await self._reach.loop.together([self._found(arn) for arn in sorted(arns)])
        return known(found, wanted, cluster)

    async def create(self, resource: Resource) -> Attributes:
        wanted = resource.properties
        optional = {name: wanted[name] for name in ("Path", "Description") if wanted.get(name)}
        await self._reach.make(
            "iam",
            "create_policy",
            PolicyName=resource.name,
            PolicyDocument=json.dumps(wanted["PolicyDocument"]),
            Tags=tag_list(resource.tags),
            **optional,
        )
        arn = self._arn(resource)
        for role in wanted.get("Roles", ()):
            await self._reach.ask("iam", "attach_role_policy", RoleName=role, PolicyArn=arn)
        return {"arn": arn}

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        names, arn = differing(existing, resource), existing.attributes["arn"]
        which = {"PolicyArn": arn}
        if "Tags" in names:
            await write_tags(self._reach, "tag_policy", which, resource)
        if "PolicyDocument" in names:
            await self._make_room(arn)
            text = json.dumps(resource.properties["PolicyDocument"])
            await self._reach.ask(
                "iam", "create_policy_version", **which, PolicyDocument=text, SetAsDefault=True
            )
        if "Roles" in names:
            before = set(existing.properties["Roles"])
            for role in set(resource.properties["Roles"]) - before:
                await self._reach.ask("iam", "attach_role_policy", RoleName=role, **which)
        return existing.attributes

    async def remove(self, existing: Existing) -> None:
        arn = existing.attributes.get("arn")
        if arn is None:
            return
        which = {"PolicyArn": arn}
        told = await self._reach.ask_if_there("iam", "list_entities_for_policy", **which)
        if told is None:
            return
        for role in told["PolicyRoles"]:
            await self._reach.remove(
                "iam", "detach_role_policy", RoleName=role["RoleName"], **which
            )
        for version in await self._versions(arn):
            if not version["IsDefaultVersion"]:
                await self._drop(arn, version)
        await self._reach.remove("iam", "delete_policy", **which)

    async def _found(self, arn: str) -> Existing | None:
        told = await self._reach.ask_if_there("iam", "get_policy", PolicyArn=arn)
        if told is None:
            return None
        raw = told["Policy"]
        version = await self._reach.ask(
            "iam", "get_policy_version", PolicyArn=arn, VersionId=raw["DefaultVersionId"]
        )
        attached = await self._reach.ask("iam", "list_entities_for_policy", PolicyArn=arn)
        return Existing(
            kind=self.kind,
            name=raw["PolicyName"],
            properties={
                "ManagedPolicyName": raw["PolicyName"],
                "Path": raw["Path"],
                "Description": raw.get("Description", ""),
                "PolicyDocument": document(version["PolicyVersion"]["Document"]),
                "Roles": [one["RoleName"] for one in attached["PolicyRoles"]],
            },
            tags=tag_map(raw.get("Tags")),
            attributes={"arn": arn},
        )

    def _arn(self, resource: Resource) -> str:
        return str(predicted(resource, self._reach.account)["arn"])

    async def _versions(self, arn: str) -> list[Raw]:
        return await self._reach.ask_all("iam", "list_policy_versions", "Versions", PolicyArn=arn)

    async def _make_room(self, arn: str) -> None:
        versions = await self._versions(arn)
        spare = sorted(
            (one for one in versions if not one["IsDefaultVersion"]),
            key=lambda one: one["CreateDate"],
        )
        for version in spare[: max(0, len(versions) - _MOST_BEFORE_ONE_MORE)]:
            await self._drop(arn, version)

    async def _drop(self, arn: str, version: Raw) -> None:
        id_: Any = version["VersionId"]
        await self._reach.remove("iam", "delete_policy_version", PolicyArn=arn, VersionId=id_)
