"""CapacityBuffer: room for pods that are not there yet."""

from typing import Final

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.kube.conditions import NO_CONDITIONS, Conditions
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import NOTHING, Resources

ACTIVE_CAPACITY: Final = "buffer.x-k8s.io/active-capacity"
"""The one way to keep capacity free that there is: as if pods were waiting for it."""


class ScalableRef(msgspec.Struct, frozen=True):
    """The workload to have room for more of."""

    group: str
    kind: str
    name: str


class CapacityBuffer(msgspec.Struct, frozen=True, kw_only=True):
    """How much room is to be kept free, and for what kind of pod."""

    name: str
    namespace: str = ""
    uid: str = ""
    strategy: str = ACTIVE_CAPACITY
    pod_template: str = ""
    """A PodTemplate of its namespace; else ``scalable`` is given."""
    scalable: ScalableRef | None = None
    replicas: int | None = None
    percentage: int | None = None
    limits: Resources = NOTHING
    deleting: bool = False
    generation: int = 0
    resource_version: str = ""
    conditions: Conditions = NO_CONDITIONS
    room_for: int | None = None
    """``status.replicas``, as last written."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def is_virtual(pod: Pod) -> bool:
    """Tell whether a pod only stands for room in a buffer: the API server has none of it."""
    return pod.annotations.get(label_keys.BUFFER_POD) == "true"
