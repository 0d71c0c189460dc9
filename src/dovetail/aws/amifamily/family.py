"""Base class of AMI families, and the SSM parameters of published AMIs."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Final

import msgspec

from dovetail.aws.userdata.bootstrap import Bootstrap
from dovetail.core.instancetypes.ami_families import ami_family_facts
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ami_family import AmiFamily
from dovetail.model.karpenter.ec2nodeclass import BlockDevice
from dovetail.model.kube.requirements import Operator, RequirementSpec

LATEST: Final = "latest"
_GPU_COUNT: Final = f"{label_keys.AWS_DOMAIN}/instance-gpu-count"
_ACCELERATOR_COUNT: Final = f"{label_keys.AWS_DOMAIN}/instance-accelerator-count"

Requirements = tuple[RequirementSpec, ...]

STANDARD: Final[Requirements] = (
    RequirementSpec(_GPU_COUNT, Operator.DOES_NOT_EXIST),
    RequirementSpec(_ACCELERATOR_COUNT, Operator.DOES_NOT_EXIST),
)
NVIDIA: Final[Requirements] = (RequirementSpec(_GPU_COUNT, Operator.EXISTS),)
NEURON: Final[Requirements] = (RequirementSpec(_ACCELERATOR_COUNT, Operator.EXISTS),)


class AmiParameter(msgspec.Struct, frozen=True, kw_only=True):
    """An SSM parameter that holds an AMI id."""

    name: str
    variants: tuple[Requirements, ...] = ((),)
    """Requirements of the instance types that the AMI is for; any one of them."""
    mutable: bool = False
    """The parameter will hold another AMI after the next release."""


class AmiFamilyProvider(ABC):
    """Properties of an AMI family that a launch needs."""

    name: AmiFamily
    needs_service_cidr: bool = False
    """User data contains the cluster's service CIDR."""

    @abstractmethod
    def render_user_data(self, bootstrap: Bootstrap) -> str:
        """Return the user data, not encoded.

        Raises ``NodeClassNotReadyError`` if the user's part is invalid or a cluster
        property is missing.
        """

    @abstractmethod
    def ami_parameters(self, version: str, kubernetes: str) -> Iterable[AmiParameter]:
        """Yield the SSM parameters of an alias (``al2023@version``)."""

    def unsupported_reason(self, kubernetes: str) -> str | None:
        """Return why no AMI is published for this Kubernetes minor version."""
        return None

    def default_block_devices(self) -> tuple[BlockDevice, ...]:
        """Return the volumes of a node class that specifies none."""
        facts = ami_family_facts(self.name)
        return (default_volume(facts.data_device, facts.data_bytes),)


def default_volume(device: str, size: int) -> BlockDevice:
    """Return an encrypted gp3 volume of ``size`` bytes."""
    return BlockDevice(device_name=device, volume_bytes=size, volume_type="gp3", encrypted=True)


def eks_optimized(kubernetes: str) -> str:
    """Return the SSM path of the EKS optimized AMIs of a Kubernetes minor version."""
    return f"/aws/service/eks/optimized-ami/{kubernetes}"


def minor_version(kubernetes: str) -> tuple[int, ...]:
    """Return ``(1, 34)`` for ``1.34``."""
    return tuple(int(part) for part in kubernetes.split(".")[:2] if part.isdigit())
