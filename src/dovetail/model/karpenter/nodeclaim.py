"""NodeClaim: request for one instance, and the state of that instance."""

from datetime import datetime, timedelta

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.karpenter.nodepool import NodeClassRef
from dovetail.model.kube.conditions import NO_CONDITIONS, Conditions
from dovetail.model.kube.pod import OwnerReference
from dovetail.model.kube.requirements import RequirementSpec
from dovetail.model.kube.resources import NO_RESOURCES, Resources
from dovetail.model.kube.taints import Taint


class NodeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A karpenter.sh/v1 NodeClaim: metadata, spec and status in one struct."""

    name: str
    uid: str = ""
    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    created: datetime | None = None
    deleting: bool = False
    deleted_at: datetime | None = None
    """``metadata.deletionTimestamp``."""
    generation: int = 0
    resource_version: str = ""
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    requirements: tuple[RequirementSpec, ...] = ()
    requests: Resources = NO_RESOURCES
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    node_class: NodeClassRef = NodeClassRef()
    expire_after: timedelta | None = timedelta(hours=720)
    termination_grace_period: timedelta | None = None
    provider_id: str = ""
    node_name: str = ""
    image_id: str = ""
    capacity: Resources = NO_RESOURCES
    allocatable: Resources = NO_RESOURCES
    conditions: Conditions = NO_CONDITIONS
    last_pod_event: datetime | None = None
    """``status.lastPodEventTime``: when a pod was last bound to or removed from its node."""

    @property
    def pool(self) -> str:
        return self.labels.get(label_keys.NODEPOOL, "")
