"""What a controller bought and made outside of every file: found, and taken away with it."""

from collections.abc import AsyncIterator
from typing import Final

import msgspec

from dovetail.aws.claim_tags import CLUSTER
from dovetail.eks.aws_client import Raw, Reach
from dovetail.model import labels as label_keys

_ALIVE: Final = ["pending", "running", "stopping", "stopped", "shutting-down"]
_CNI: Final = "cluster.k8s.amazonaws.com/name"
"""What the VPC CNI tags network interfaces with."""


class Left(msgspec.Struct, frozen=True, order=True):
    """Something that is still there."""

    what: str
    name: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.name}" + (f": {self.why}" if self.why else "")


class Sweeper:
    """Looks for, and removes, what belongs to a cluster's nodes."""

    def __init__(self, reach: Reach, *, is_guest: bool) -> None:
        """``is_guest``: the cluster stays, and much of this is other people's."""
        self._reach = reach
        self._cluster = reach.cluster
        self._is_guest = is_guest

    async def sweep(self) -> None:
        """Remove what controllers should have removed, where nobody else can need it."""
        if self._is_guest:
            return
        machines = [one["InstanceId"] for one in await self.instances()]
        if machines:
            await self._reach.ask("ec2", "terminate_instances", InstanceIds=machines)
            await self._reach.until("instances are being terminated", self._none_left)
        for template in await self.templates():
            id_ = template["LaunchTemplateId"]
            await self._reach.remove("ec2", "delete_launch_template", LaunchTemplateId=id_)
        for profile in await self.profiles():
            await self._remove_profile(profile)

    async def sweep_interfaces(self) -> None:
        """Remove interfaces that nothing uses: they hold security groups and subnets."""
        if self._is_guest:
            return
        for one in await self.interfaces():
            if one.get("Status") == "available":
                id_ = one["NetworkInterfaceId"]
                await self._reach.remove("ec2", "delete_network_interface", NetworkInterfaceId=id_)

    async def left(self) -> AsyncIterator[Left]:
        """Hand out all that is still there."""
        for one in await self.instances():
            yield Left("instance", one["InstanceId"], one["State"]["Name"])
        for one in await self.interfaces():
            yield Left("network interface", one["NetworkInterfaceId"], one.get("Status", ""))
        for one in await self.volumes():
            why = f"{one['Size']} GiB, {one['State']}; it may hold data, so it is yours to remove"
            yield Left("volume", one["VolumeId"], why)
        for one in await self.templates():
            yield Left("launch template", one["LaunchTemplateName"])
        for one in await self.profiles():
            yield Left("instance profile", one["InstanceProfileName"])
        for one in await self.logs():
            yield Left("log group", one["logGroupName"])

    async def instances(self) -> list[Raw]:
        """Return the machines that a controller bought for this cluster."""
        reservations = await self._reach.ask_all(
            "ec2",
            "describe_instances",
            "Reservations",
            Filters=[
                _tagged(CLUSTER, self._cluster),
                {"Name": "tag-key", "Values": [label_keys.NODEPOOL]},
                {"Name": "instance-state-name", "Values": _ALIVE},
            ],
        )
        return [one for found in reservations for one in found["Instances"]]

    async def interfaces(self) -> list[Raw]:
        """Return network interfaces that nodes' CNI has left; a guest's are not ours."""
        if self._is_guest:
            return []
        return await self._reach.ask_all(
            "ec2",
            "describe_network_interfaces",
            "NetworkInterfaces",
            Filters=[_tagged(_CNI, self._cluster)],
        )

    async def volumes(self) -> list[Raw]:
        """Return the disks that were made for the cluster's claims."""
        if self._is_guest:
            return []
        return await self._reach.ask_all(
            "ec2",
            "describe_volumes",
            "Volumes",
            Filters=[_tagged(f"kubernetes.io/cluster/{self._cluster}", "owned")],
        )

    async def templates(self) -> list[Raw]:
        """Return the launch templates that a controller made."""
        return await self._reach.ask_all(
            "ec2",
            "describe_launch_templates",
            "LaunchTemplates",
            Filters=[
                _tagged(CLUSTER, self._cluster),
                {"Name": "tag-key", "Values": [label_keys.EC2_NODE_CLASS]},
            ],
        )

    async def profiles(self) -> list[Raw]:
        """Return the instance profiles that a controller made; their path says for whom."""
        account = self._reach.account
        path = f"/karpenter/{account.region}/{self._cluster}/"
        listed = await self._reach.ask_all(
            "iam", "list_instance_profiles", "InstanceProfiles", PathPrefix=path
        )
        # These are removed: whoever answers without looking at the path must do no harm.
        return [one for one in listed if one["Path"].startswith(path)]

    async def logs(self) -> list[Raw]:
        """Return the control plane's logs."""
        if self._is_guest:
            return []
        return await self._reach.ask_all(
            "logs",
            "describe_log_groups",
            "logGroups",
            logGroupNamePrefix=f"/aws/eks/{self._cluster}/",
        )

    async def _none_left(self) -> bool | None:
        return None if await self.instances() else True

    async def _remove_profile(self, profile: Raw) -> None:
        which = {"InstanceProfileName": profile["InstanceProfileName"]}
        for role in profile["Roles"]:
            await self._reach.remove(
                "iam", "remove_role_from_instance_profile", **which, RoleName=role["RoleName"]
            )
        await self._reach.remove("iam", "delete_instance_profile", **which)


def _tagged(key: str, value: str) -> Raw:
    return {"Name": f"tag:{key}", "Values": [value]}
