"""Launch config: a resolved node class, ready to launch instances from."""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import Subnet
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import Taint
from dovetail.ports.cloudprovider import NodeClassStatus


class LaunchAmi(msgspec.Struct, frozen=True, kw_only=True):
    """An AMI and the requirements of the instance types that it is for."""

    id: str
    requirements: Requirements = Requirements()
    name: str = ""

    def supports(self, instance_type: InstanceType) -> bool:
        """Return True if the AMI is meant for an instance type."""
        return self.requirements.find_disjoint_key(instance_type.requirements) is None


class UserDataContext(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs of user data that differ between instances of a node class."""

    ami: LaunchAmi
    max_pods: int
    kube_reserved: Resources | None = None
    system_reserved: Resources | None = None
    """None: those of the node class."""
    labels: FrozenDict[str, str] = EMPTY
    """Labels of the claim and the capacity type; the AMI family drops restricted ones."""
    taints: tuple[Taint, ...] = ()
    """Taints that the node registers with, including the unregistered taint."""


class LaunchConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A node class with everything that it selects.

    Network interfaces, tags and context are in ``node_class.launch``.
    """

    node_class: EC2NodeClass
    amis: tuple[LaunchAmi, ...]
    """In the order of the status; an instance type gets the first that supports it."""
    subnets: tuple[Subnet, ...]
    security_groups: tuple[str, ...]
    instance_profile: str
    user_data: Callable[[UserDataContext], bytes]
    """Renders user data, not Base64. Raises ``NodeClassNotReadyError``."""
    template: FrozenDict[str, Any] = FrozenDict()
    """Part of RequestLaunchTemplateData that is the same for all instances:

    BlockDeviceMappings, MetadataOptions, Monitoring, CpuOptions and
    Placement.GroupId. ``encode_template_data`` adds the rest.
    """
    ipv6: bool = False
    """The cluster's address family is IPv6."""
    manages_reservations: bool = True
    """Launches target capacity reservations explicitly; else EC2 decides."""


class NodeClassProvider(Protocol):
    """Resolves node classes, and owns the AWS resources that are created for them."""

    def launch_config(self, node_class: EC2NodeClass) -> LaunchConfig:
        """Return the launch config of a ready node class, from a cache.

        It is the same object until something changes. Raises
        ``NodeClassNotReadyError`` if AMIs, subnets, security groups or the
        instance profile are missing.
        """

    async def resolve(self, node_class: dict[str, Any]) -> NodeClassStatus:
        """See ``CloudProvider.resolve_nodeclass``."""

    async def delete_resources(self, node_class: dict[str, Any]) -> None:
        """Delete the instance profiles that were created for a node class."""
