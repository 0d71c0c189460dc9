"""Instances of virtual EC2, and what boots on them."""

from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from dovetail.core.instancetypes.launch_choices import Choice
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import UNREGISTERED
from dovetail.simulator.clock import Appointment
from dovetail.simulator.ec2.billing import Purchase
from dovetail.simulator.instance import Machine

_NOT_FROM_USER_DATA: Final = ("kubernetes.io", "k8s.io")
"""Domains of labels that a kubelet may not give itself."""
_BY_KUBELET: Final = (
    label_keys.ARCH,
    label_keys.OS,
    label_keys.INSTANCE_TYPE,
    label_keys.WINDOWS_BUILD,
)
_BY_CLOUD: Final = (label_keys.ZONE, label_keys.ZONE_ID, label_keys.REGION)
"""Given to the node by the cloud controller."""


class State(StrEnum):
    """Where an instance is in its life."""

    PENDING = "pending"
    RUNNING = "running"
    SHUTTING_DOWN = "shutting-down"
    TERMINATED = "terminated"


class Ec2Instance(msgspec.Struct, kw_only=True, eq=False):
    """One instance, with all that the launch said of it."""

    id: str
    private_name: str
    choice: Choice
    claim: NodeClaim
    """For which it was bought: user data and tags are made of it."""
    ami_family: str
    image_id: str
    labels: FrozenDict[str, str]
    """Those that this kind of machine settles."""
    capacity: Resources
    allocatable: Resources
    tags: FrozenDict[str, str]
    launched: datetime
    purchase: Purchase
    subnet: str = ""
    security_groups: tuple[str, ...] = ()
    state: State = State.PENDING
    joins: bool = True
    """Whether a kubelet will start on it."""
    next: Appointment | None = None
    """The next step of its life, if it takes it by itself."""

    @property
    def provider_id(self) -> str:
        return f"aws:///{self.choice.offering.zone}/{self.id}"

    @property
    def is_ending(self) -> bool:
        return self.state in (State.SHUTTING_DOWN, State.TERMINATED)


def machine_of(instance: Ec2Instance) -> Machine:
    """Return what its kubelet learns from the machine and the user data."""
    claim = instance.claim
    taints = [*claim.taints, *claim.startup_taints]
    if UNREGISTERED not in taints:
        taints.append(UNREGISTERED)
    return Machine(
        name=instance.private_name,
        provider_id=instance.provider_id,
        labels=_node_labels(instance),
        taints=tuple(taints),
        capacity=instance.capacity,
        allocatable=instance.allocatable,
    )


def _node_labels(instance: Ec2Instance) -> FrozenDict[str, str]:
    given = {key: value for key, value in instance.claim.labels.items() if not _is_restricted(key)}
    given[label_keys.CAPACITY_TYPE] = instance.choice.offering.capacity_type
    if instance.ami_family != "Custom":
        given[label_keys.DO_NOT_SYNC_TAINTS] = "true"
    own = {
        key: instance.labels[key] for key in (*_BY_KUBELET, *_BY_CLOUD) if key in instance.labels
    }
    return FrozenDict({**given, **own, label_keys.HOSTNAME: instance.private_name})


def _is_restricted(key: str) -> bool:
    domain = key.rpartition("/")[0]
    return any(domain == one or domain.endswith("." + one) for one in _NOT_FROM_USER_DATA)
