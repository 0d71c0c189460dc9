"""CapacityBuffer: reserved capacity for pods that do not exist yet."""

from typing import Final

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.kube.conditions import NO_CONDITIONS, Conditions
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import NO_RESOURCES, Resources

ACTIVE_CAPACITY: Final = "buffer.x-k8s.io/active-capacity"
"""The only provisioning strategy: provision as if the buffer's pods were pending."""


class ScalableRef(msgspec.Struct, frozen=True):
    """Reference to the workload whose pods the buffer reserves capacity for."""

    group: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.group}/{self.kind}" if self.group else self.kind


class CapacityBuffer(msgspec.Struct, frozen=True, kw_only=True):
    """An autoscaling.x-k8s.io/v1beta1 CapacityBuffer."""

    name: str
    namespace: str = ""
    uid: str = ""
    strategy: str = ACTIVE_CAPACITY
    pod_template: str = ""
    """Name of a PodTemplate in its namespace; empty if ``scalable_ref`` is set."""
    scalable_ref: ScalableRef | None = None
    replicas: int | None = None
    percentage: int | None = None
    limits: Resources = NO_RESOURCES
    deleting: bool = False
    generation: int = 0
    resource_version: str = ""
    conditions: Conditions = NO_CONDITIONS
    status_replicas: int | None = None
    """``status.replicas``: number of pods to reserve capacity for, as last written."""
    status_pod_template: str = ""
    """``status.podTemplateRef``: the PodTemplate in use; empty for a ``scalable_ref``."""
    status_pod_template_generation: int | None = None
    status_strategy: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def is_buffer_pod(pod: Pod) -> bool:
    """Return True if the pod represents buffer capacity and is not in the API server."""
    return pod.annotations.get(label_keys.CAPACITY_BUFFER_POD) == "true"
