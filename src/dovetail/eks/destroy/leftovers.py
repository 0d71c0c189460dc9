"""Leftovers: resources of nodes, created by the controller outside of any plan."""

from collections.abc import AsyncIterator
from typing import Final

import msgspec

from dovetail.aws.claim_tags import CLUSTER_TAG
from dovetail.eks.aws_client import AwsClient, Raw, tag_filter
from dovetail.model import labels as label_keys

_NOT_TERMINATED: Final = ["pending", "running", "stopping", "stopped", "shutting-down"]
_CNI_CLUSTER_TAG: Final = "cluster.k8s.amazonaws.com/name"
"""Tag of network interfaces that the VPC CNI creates."""


class Leftover(msgspec.Struct, frozen=True, order=True):
    """A resource that still exists."""

    kind: str
    name: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f": {self.reason}" if self.reason else "")


class LeftoverCleaner:
    """Finds and deletes the resources of a cluster's nodes."""

    def __init__(self, aws: AwsClient, *, uses_existing_cluster: bool) -> None:
        """``uses_existing_cluster``: the cluster is kept, with resources of others."""
        self._aws = aws
        self._cluster = aws.cluster
        self._uses_existing_cluster = uses_existing_cluster

    async def delete_node_resources(self) -> None:
        """Delete instances, launch templates and instance profiles of the controller.

        In an existing cluster they may be in use, so nothing is deleted.
        """
        if self._uses_existing_cluster:
            return
        instances = [instance["InstanceId"] for instance in await self._instances()]
        if instances:
            await self._aws.call("ec2", "terminate_instances", InstanceIds=instances)
            await self._aws.wait_for("instances are being terminated", self._no_instances)
        for template in await self._launch_templates():
            template_id = template["LaunchTemplateId"]
            await self._aws.delete("ec2", "delete_launch_template", LaunchTemplateId=template_id)
        for profile in await self._instance_profiles():
            await self._delete_profile(profile)

    async def delete_unused_interfaces(self) -> None:
        """Delete detached interfaces: they block security groups and subnets."""
        if self._uses_existing_cluster:
            return
        for interface in await self._interfaces():
            if interface.get("Status") == "available":
                interface_id = interface["NetworkInterfaceId"]
                await self._aws.delete("ec2", "delete_network_interface", NetworkInterfaceId=interface_id)

    async def find(self) -> AsyncIterator[Leftover]:
        """Yield the resources that still exist."""
        for instance in await self._instances():
            yield Leftover("instance", instance["InstanceId"], instance["State"]["Name"])
        for interface in await self._interfaces():
            interface_id = interface["NetworkInterfaceId"]
            yield Leftover("network interface", interface_id, interface.get("Status", ""))
        for volume in await self._volumes():
            reason = f"{volume['Size']} GiB, {volume['State']}; it may hold data: delete it yourself"
            yield Leftover("volume", volume["VolumeId"], reason)
        for template in await self._launch_templates():
            yield Leftover("launch template", template["LaunchTemplateName"])
        for profile in await self._instance_profiles():
            yield Leftover("instance profile", profile["InstanceProfileName"])
        for group in await self._log_groups():
            yield Leftover("log group", group["logGroupName"])

    async def _instances(self) -> list[Raw]:
        """Return the instances that the controller launched for this cluster."""
        return await self._aws.describe_instances(
            tag_filter(CLUSTER_TAG, self._cluster),
            {"Name": "tag-key", "Values": [label_keys.NODEPOOL]},
            {"Name": "instance-state-name", "Values": _NOT_TERMINATED},
        )

    async def _interfaces(self) -> list[Raw]:
        """Return network interfaces of the VPC CNI; none in an existing cluster."""
        if self._uses_existing_cluster:
            return []
        return await self._aws.describe_ec2("NetworkInterfaces", tag_filter(_CNI_CLUSTER_TAG, self._cluster))

    async def _volumes(self) -> list[Raw]:
        """Return the volumes of the cluster's PersistentVolumeClaims."""
        if self._uses_existing_cluster:
            return []
        owned = tag_filter(f"kubernetes.io/cluster/{self._cluster}", "owned")
        return await self._aws.describe_ec2("Volumes", owned)

    async def _launch_templates(self) -> list[Raw]:
        """Return the launch templates that the controller created."""
        has_node_class = {"Name": "tag-key", "Values": [label_keys.EC2_NODE_CLASS]}
        return await self._aws.describe_ec2(
            "LaunchTemplates", tag_filter(CLUSTER_TAG, self._cluster), has_node_class
        )

    async def _instance_profiles(self) -> list[Raw]:
        """Return the instance profiles of the controller; their path names the cluster."""
        path = f"/karpenter/{self._aws.account.region}/{self._cluster}/"
        profiles = await self._aws.list_all(
            "iam", "list_instance_profiles", "InstanceProfiles", PathPrefix=path
        )
        # These are deleted: check the path again, in case an API ignores the prefix.
        return [profile for profile in profiles if profile["Path"].startswith(path)]

    async def _log_groups(self) -> list[Raw]:
        """Return the log groups of the control plane."""
        if self._uses_existing_cluster:
            return []
        return await self._aws.list_all(
            "logs", "describe_log_groups", "logGroups", logGroupNamePrefix=f"/aws/eks/{self._cluster}/"
        )

    async def _no_instances(self) -> bool | None:
        return None if await self._instances() else True

    async def _delete_profile(self, profile: Raw) -> None:
        identity = {"InstanceProfileName": profile["InstanceProfileName"]}
        for role in profile["Roles"]:
            await self._aws.delete(
                "iam", "remove_role_from_instance_profile", **identity, RoleName=role["RoleName"]
            )
        await self._aws.delete("iam", "delete_instance_profile", **identity)
