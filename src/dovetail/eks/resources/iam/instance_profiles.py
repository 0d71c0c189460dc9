"""Instance profiles: the role that an instance has."""

from collections.abc import Iterable, Sequence

from dovetail.eks.aws_client import Raw, Reach, if_there
from dovetail.eks.plan.resource import Existing, Resource
from dovetail.eks.resources.handler import Attributes
from dovetail.eks.resources.iam.base import known, named_after, write_tags
from dovetail.eks.resources.property_names import differing, tag_list, tag_map


class InstanceProfiles:
    """Profiles by name, each with one role."""

    kind = "instance-profile"

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        listing = ("list_instance_profiles", "InstanceProfiles", "InstanceProfileName")
        ours = await named_after(self._reach, *listing)
        names = sorted({one.name for one in wanted} | set(ours))
        found = await self._reach.loop.together([self._found(name) for name in names])
        return known(found, wanted, cluster)

    async def create(self, resource: Resource) -> Attributes:
        path = resource.properties.get("Path", "/")
        await self._reach.make(
            "iam",
            "create_instance_profile",
            InstanceProfileName=resource.name,
            Path=path,
            Tags=tag_list(resource.tags),
        )
        return await self._with_role(resource)

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        if "Tags" in differing(existing, resource):
            which = {"InstanceProfileName": resource.name}
            await write_tags(self._reach, "tag_instance_profile", which, resource)
        return await self._with_role(resource)

    async def remove(self, existing: Existing) -> None:
        which = {"InstanceProfileName": existing.name}
        raw = await self._profile(existing.name)
        for role in raw["Roles"] if raw else ():
            await self._reach.remove(
                "iam", "remove_role_from_instance_profile", **which, RoleName=role["RoleName"]
            )
        await self._reach.remove("iam", "delete_instance_profile", **which)

    async def _with_role(self, resource: Resource) -> Attributes:
        which = {"InstanceProfileName": resource.name}
        raw = (await self._reach.ask("iam", "get_instance_profile", **which))["InstanceProfile"]
        held = [one["RoleName"] for one in raw["Roles"]]
        wanted = list(resource.properties["Roles"])
        for role in held:
            if role not in wanted:
                await self._reach.remove(
                    "iam", "remove_role_from_instance_profile", **which, RoleName=role
                )
        for role in wanted:
            if role not in held:
                await self._reach.patiently(
                    "iam", "add_role_to_instance_profile", **which, RoleName=role
                )
        return _existing(raw).attributes

    async def _found(self, name: str) -> Existing | None:
        raw = await self._profile(name)
        return _existing(raw) if raw else None

    async def _profile(self, name: str) -> Raw | None:
        work = self._reach.ask("iam", "get_instance_profile", InstanceProfileName=name)
        told = await if_there(work)
        return told["InstanceProfile"] if told else None


def _existing(raw: Raw) -> Existing:
    name = raw["InstanceProfileName"]
    return Existing(
        kind=InstanceProfiles.kind,
        name=name,
        properties={
            "InstanceProfileName": name,
            "Path": raw["Path"],
            "Roles": [one["RoleName"] for one in raw["Roles"]],
        },
        tags=tag_map(raw.get("Tags")),
        attributes={"arn": raw["Arn"], "name": name},
    )
