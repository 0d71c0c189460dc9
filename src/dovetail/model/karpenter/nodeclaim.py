"""NodeClaim: one machine wanted, or had."""

from datetime import datetime, timedelta

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.karpenter.nodepool import NodeClassRef
from dovetail.model.kube.conditions import NO_CONDITIONS, Conditions
from dovetail.model.kube.pod import Owner
from dovetail.model.kube.requirements import RequirementSpec
from dovetail.model.kube.resources import NOTHING, Resources
from dovetail.model.kube.taints import Taint


class NodeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A request for one machine and what became of it."""

    name: str
    uid: str = ""
    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    created: datetime | None = None
    deleting: bool = False
    deleted_at: datetime | None = None
    """Since when it is being deleted."""
    generation: int = 0
    resource_version: str = ""
    finalizers: tuple[str, ...] = ()
    owners: tuple[Owner, ...] = ()
    requirements: tuple[RequirementSpec, ...] = ()
    requests: Resources = NOTHING
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    node_class: NodeClassRef = NodeClassRef()
    expire_after: timedelta | None = timedelta(hours=720)
    termination_grace_period: timedelta | None = None
    provider_id: str = ""
    node_name: str = ""
    image_id: str = ""
    capacity: Resources = NOTHING
    allocatable: Resources = NOTHING
    conditions: Conditions = NO_CONDITIONS
    last_pod_event: datetime | None = None
    """When a pod last came to its node or went."""

    @property
    def pool(self) -> str:
        return self.labels.get(label_keys.NODEPOOL, "")
