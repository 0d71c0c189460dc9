"""IAM roles, with the managed policies attached to them."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from dovetail.eks.aws_client import Raw, Reach
from dovetail.eks.plan.resource import Existing, Resource
from dovetail.eks.resources.handler import Attributes
from dovetail.eks.resources.iam.base import attached_arns, document, known, named_after, write_tags
from dovetail.eks.resources.property_names import differing, tag_list, tag_map


class Roles:
    """Roles by name; those that were there before us are looked up in the same way."""

    kind = "iam-role"

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        ours = await named_after(self._reach, "list_roles", "Roles", "RoleName")
        names = sorted({one.name for one in wanted} | set(ours))
        found = await self._reach.loop.together([self._found(name) for name in names])
        return known(found, wanted, cluster)

    async def create(self, resource: Resource) -> Attributes:
        wanted = resource.properties
        optional = {
            name: wanted[name]
            for name in ("Path", "Description", "PermissionsBoundary", "MaxSessionDuration")
            if wanted.get(name)
        }
        await self._reach.make(
            "iam",
            "create_role",
            RoleName=resource.name,
            AssumeRolePolicyDocument=_text(wanted["AssumeRolePolicyDocument"]),
            Tags=tag_list(resource.tags),
            **optional,
        )
        await self._attach(resource.name, wanted.get("ManagedPolicyArns", ()))
        role = await self._reach.seen_soon(
            lambda: self._reach.ask("iam", "get_role", RoleName=resource.name)
        )
        return _attributes(role["Role"])

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        names, wanted = differing(existing, resource), resource.properties
        which = {"RoleName": resource.name}
        if "Tags" in names:
            await write_tags(self._reach, "tag_role", which, resource)
        if "AssumeRolePolicyDocument" in names:
            text = _text(wanted["AssumeRolePolicyDocument"])
            await self._reach.patiently(
                "iam", "update_assume_role_policy", **which, PolicyDocument=text
            )
        if "PermissionsBoundary" in names:
            boundary = wanted["PermissionsBoundary"]
            await self._reach.ask(
                "iam", "put_role_permissions_boundary", **which, PermissionsBoundary=boundary
            )
        if "ManagedPolicyArns" in names:
            before = set(existing.properties["ManagedPolicyArns"])
            after = list(wanted["ManagedPolicyArns"])
            await self._attach(resource.name, [one for one in after if one not in before])
            await self._detach(resource.name, sorted(before.difference(after)))
        return existing.attributes

    async def remove(self, existing: Existing) -> None:
        which = {"RoleName": existing.name}
        attached = await self._reach.ask_if_there("iam", "list_attached_role_policies", **which)
        if attached is None:
            return
        await self._detach(existing.name, attached_arns(attached["AttachedPolicies"]))
        # Somebody may have put it into a profile or given it a policy by hand.
        inline = await self._reach.ask_all("iam", "list_role_policies", "PolicyNames", **which)
        for name in inline:
            await self._reach.remove("iam", "delete_role_policy", **which, PolicyName=name)
        profiles = await self._reach.ask_all(
            "iam", "list_instance_profiles_for_role", "InstanceProfiles", **which
        )
        for one in profiles:
            profile = {"InstanceProfileName": one["InstanceProfileName"]}
            await self._reach.remove("iam", "remove_role_from_instance_profile", **which, **profile)
        await self._reach.remove("iam", "delete_role", **which)

    async def _found(self, name: str) -> Existing | None:
        told = await self._reach.ask_if_there("iam", "get_role", RoleName=name)
        if told is None:
            return None
        raw = told["Role"]
        attached = await self._reach.ask_all(
            "iam", "list_attached_role_policies", "AttachedPolicies", RoleName=name
        )
        boundary = raw.get("PermissionsBoundary") or {}
        return Existing(
            kind=self.kind,
            name=name,
            properties={
                "RoleName": name,
                "Path": raw["Path"],
                "Description": raw.get("Description", ""),
                "AssumeRolePolicyDocument": document(raw["AssumeRolePolicyDocument"]),
                "ManagedPolicyArns": attached_arns(attached),
                "PermissionsBoundary": boundary.get("PermissionsBoundaryArn", ""),
            },
            tags=tag_map(raw.get("Tags")),
            attributes=_attributes(raw),
        )

    async def _attach(self, role: str, arns: Iterable[str]) -> None:
        for arn in arns:
            await self._reach.ask("iam", "attach_role_policy", RoleName=role, PolicyArn=arn)

    async def _detach(self, role: str, arns: Iterable[str]) -> None:
        for arn in arns:
            await self._reach.remove("iam", "detach_role_policy", RoleName=role, PolicyArn=arn)


def _attributes(raw: Raw) -> Attributes:
    return {"arn": raw["Arn"], "name": raw["RoleName"]}


def _text(value: Any) -> str:
    return json.dumps(value)
