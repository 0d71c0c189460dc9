"""Handler for launch templates of managed node groups."""

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.eks.aws_client import Raw
from dovetail.eks.plan.resource import DesiredResource, ObservedResource
from dovetail.eks.resources.ec2.base import CreateCall, TaggedEc2Handler
from dovetail.eks.resources.handler import Attributes


class LaunchTemplateHandler(TaggedEc2Handler):
    """Launch templates; an update creates a version, which becomes the default."""

    kind = "launch-template"
    plural = "LaunchTemplates"
    id_key = "LaunchTemplateId"
    resource_type = "launch-template"

    def properties(self, raw: Raw) -> Mapping[str, Any]:
        return {"LaunchTemplateName": raw["LaunchTemplateName"]}

    async def extra_properties(self, raw: Raw) -> Mapping[str, Any]:
        versions = await self._aws.list_all(
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

    def conflict_filters(self, resource: DesiredResource) -> Sequence[Raw]:
        return ({"Name": "launch-template-name", "Values": [resource.name]},)

    def create_call(self, resource: DesiredResource) -> CreateCall:
        data = resource.properties["LaunchTemplateData"]
        parameters = {"LaunchTemplateName": resource.name, "LaunchTemplateData": data}
        return CreateCall("create_launch_template", "LaunchTemplate", parameters)

    async def update_properties(
        self, observed: ObservedResource, resource: DesiredResource, names: frozenset[str]
    ) -> Attributes:
        template_id = self.id_of(observed)
        response = await self._aws.call(
            "ec2",
            "create_launch_template_version",
            LaunchTemplateId=template_id,
            LaunchTemplateData=resource.properties["LaunchTemplateData"],
        )
        version = str(response["LaunchTemplateVersion"]["VersionNumber"])
        await self._aws.call(
            "ec2", "modify_launch_template", LaunchTemplateId=template_id, DefaultVersion=version
        )
        return {"version": version}
