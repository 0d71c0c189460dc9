"""Launch templates of managed node groups."""

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.eks.aws_client import Raw
from dovetail.eks.plan.resource import Existing, Resource
from dovetail.eks.resources.handler import Attributes
from dovetail.eks.resources.network.ec2_base import Making, Tagged


class LaunchTemplates(Tagged):
    """Templates; a change is a new version, which becomes the default."""

    kind = "launch-template"
    lists = ("describe_launch_templates", "LaunchTemplates")
    id_key = "LaunchTemplateId"
    calls_itself = "launch-template"

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        return {"LaunchTemplateName": raw["LaunchTemplateName"]}

    async def more(self, raw: Raw) -> Mapping[str, Any]:
        versions = await self._reach.ask_all(
            "ec2",
            "describe_launch_template_versions",
            "LaunchTemplateVersions",
            LaunchTemplateId=raw["LaunchTemplateId"],
            Versions=["$Latest"],
        )
        return {"LaunchTemplateData": versions[0]["LaunchTemplateData"] if versions else {}}

    def attributes(self, raw: Raw) -> Attributes:
        return {"id": raw["LaunchTemplateId"], "version": str(raw["LatestVersionNumber"])}

    def name_of(self, raw: Raw) -> str:
        return str(raw["LaunchTemplateName"])

    def place(self, resource: Resource) -> Sequence[Raw]:
        return ({"Name": "launch-template-name", "Values": [resource.name]},)

    def making(self, resource: Resource) -> Making:
        data = resource.properties["LaunchTemplateData"]
        asked = {"LaunchTemplateName": resource.name, "LaunchTemplateData": data}
        return Making("create_launch_template", "LaunchTemplate", asked)

    async def amend(
        self, existing: Existing, resource: Resource, names: frozenset[str]
    ) -> Attributes:
        id_ = self.id_of(existing)
        made = await self._reach.ask(
            "ec2",
            "create_launch_template_version",
            LaunchTemplateId=id_,
            LaunchTemplateData=resource.properties["LaunchTemplateData"],
        )
        version = str(made["LaunchTemplateVersion"]["VersionNumber"])
        await self._reach.ask(
            "ec2", "modify_launch_template", LaunchTemplateId=id_, DefaultVersion=version
        )
        return {"version": version}

    async def unmake(self, id_: str) -> None:
        await self._reach.remove("ec2", "delete_launch_template", LaunchTemplateId=id_)
