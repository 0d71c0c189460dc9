"""What launching needs of a node class, once it is known what the class selects."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import Subnet
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.taints import Taint
from dovetail.ports.cloudprovider import ClassStatus


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """A machine image, and the instance types that it is for."""

    id: str
    requirements: Requirements = Requirements()
    name: str = ""

    def boots(self, one: InstanceType) -> bool:
        """Tell whether the image is meant for a type."""
        return self.requirements.clash(one.requirements) is None


class Boot(msgspec.Struct, frozen=True, kw_only=True):
    """What the user data of a machine depends on, beside its class."""

    image: Image
    max_pods: int
    labels: FrozenDict[str, str] = EMPTY
    """All of the claim, and the capacity type: the family leaves out what kubelets may not say."""
    taints: tuple[Taint, ...] = ()
    """All that the node must register with, the one for unregistered nodes included."""


class Launchable(msgspec.Struct, frozen=True, kw_only=True):
    """A node class in full.

    Interfaces, tags and context are taken from ``node_class.launch``.
    """

    node_class: NodeClass
    images: tuple[Image, ...]
    """In the order of the status: the first that boots a type is the type's."""
    subnets: tuple[Subnet, ...]
    security_groups: tuple[str, ...]
    instance_profile: str
    user_data: Callable[[Boot], bytes]
    """Not encoded. Raises ``NodeClassNotReady`` when it cannot be made."""
    template: FrozenDict[str, Any] = FrozenDict()
    """What the class alone settles of EC2's RequestLaunchTemplateData, under EC2's names:

    BlockDeviceMappings, MetadataOptions, Monitoring, CpuOptions, Placement.GroupId. Not the image,
    the user data, the profile, interfaces, tags, tenancy and reservation, which launching adds.
    """
    ipv6: bool = False
    """The cluster's address family."""
    reserved_capacity: bool = True
    """Whether we decide what is launched into capacity reservations, or leave it to EC2."""


class Launchables(Protocol):
    """Knows what node classes select."""

    def launchable(self, node_class: NodeClass) -> Launchable:
        """Return what a class that is ready means, from memory.

        The same object while nothing has changed. Raises ``NodeClassNotReady``
        when something is missing (images, subnets, security groups, a profile).
        """


class Classes(Launchables, Protocol):
    """Finds out what node classes select, and keeps what is made for them."""

    async def resolve(self, node_class: dict[str, Any]) -> ClassStatus:
        """See ``ports.cloudprovider.Cloud.resolve``."""

    async def forget(self, node_class: dict[str, Any]) -> None:
        """Take away the instance profiles that were made for a class."""


class Addresses(Protocol):
    """How many addresses subnets have free, those of machines on their way taken off."""

    def free(self, subnet_id: str) -> int: ...

    def take(self, amounts: Mapping[str, int]) -> None:
        """Count on fewer from now on: machines have been asked for (subnet → addresses)."""

    def give_back(self, amounts: Mapping[str, int]) -> None:
        """Undo ``take`` for subnets in which nothing was bought."""

    def exhaust(self, subnet_id: str) -> None:
        """EC2 says that it has none left."""
