"""Instances of the EC2 simulator, and what their kubelets register."""

from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from dovetail.core.instancetypes.launch_choices import LaunchChoice
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ami_family import AmiFamily
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import UNREGISTERED_TAINT
from dovetail.simulator.clock import ScheduledCall
from dovetail.simulator.ec2.billing import LaunchRecord
from dovetail.simulator.instance import BootedInstance

_NOT_FROM_USER_DATA: Final = ("kubernetes.io", "k8s.io")
"""Domains of labels that a kubelet may not set on its own node."""
_BY_KUBELET: Final = (label_keys.ARCH, label_keys.OS, label_keys.INSTANCE_TYPE, label_keys.WINDOWS_BUILD)
_BY_CLOUD: Final = (label_keys.ZONE, label_keys.ZONE_ID, label_keys.REGION)
"""Set on the node by the cloud controller manager."""


class InstanceState(StrEnum):
    """State of an instance, by EC2's names."""

    PENDING = "pending"
    RUNNING = "running"
    SHUTTING_DOWN = "shutting-down"
    TERMINATED = "terminated"


class Ec2Instance(msgspec.Struct, kw_only=True, eq=False):
    """One instance, with the parameters of its launch."""

    id: str
    private_dns_name: str
    choice: LaunchChoice
    claim: NodeClaim
    """NodeClaim that it was launched for; user data and tags derive from it."""
    ami_family: AmiFamily
    image_id: str
    labels: FrozenDict[str, str]
    """Labels that the instance type and offering determine."""
    capacity: Resources
    allocatable: Resources
    tags: FrozenDict[str, str]
    launched: datetime
    launch: LaunchRecord
    subnet: str = ""
    security_groups: tuple[str, ...] = ()
    state: InstanceState = InstanceState.PENDING
    registers: bool = True
    """True if a kubelet will start on it."""
    next_transition: ScheduledCall | None = None
    """The next state transition, if one is scheduled."""

    @property
    def provider_id(self) -> str:
        return f"aws:///{self.choice.offering.zone}/{self.id}"

    @property
    def is_terminating(self) -> bool:
        return self.state in (InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED)


def booted_instance(instance: Ec2Instance) -> BootedInstance:
    """Return what the kubelet learns from the instance and its user data."""
    claim = instance.claim
    taints = [*claim.taints, *claim.startup_taints]
    if UNREGISTERED_TAINT not in taints:
        taints.append(UNREGISTERED_TAINT)
    return BootedInstance(
        name=instance.private_dns_name,
        provider_id=instance.provider_id,
        labels=_node_labels(instance),
        taints=tuple(taints),
        capacity=instance.capacity,
        allocatable=instance.allocatable,
    )


def _node_labels(instance: Ec2Instance) -> FrozenDict[str, str]:
    given = {key: value for key, value in instance.claim.labels.items() if not _is_restricted(key)}
    given[label_keys.CAPACITY_TYPE] = instance.choice.offering.capacity_type
    if instance.ami_family is not AmiFamily.CUSTOM:
        given[label_keys.DO_NOT_SYNC_TAINTS] = "true"
    own = {key: instance.labels[key] for key in (*_BY_KUBELET, *_BY_CLOUD) if key in instance.labels}
    return FrozenDict({**given, **own, label_keys.HOSTNAME: instance.private_dns_name})


def _is_restricted(key: str) -> bool:
    domain = key.rpartition("/")[0]
    return any(
        domain == restricted or domain.endswith("." + restricted) for restricted in _NOT_FROM_USER_DATA
    )
