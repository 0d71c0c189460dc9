"""NodeClaim: one machine wanted, or had."""

from datetime import datetime, timedelta

import msgspec

from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.nodepool import NodeClassRef
from dovetail.model.requirements import RequirementSpec
from dovetail.model.resources import NOTHING, Resources
from dovetail.model.taints import Taint


class NodeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A request for one machine and what became of it."""

    name: str
    uid: str = ""
    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    created: datetime | None = None
    deleting: bool = False
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
    conditions: FrozenDict[str, str] = EMPTY
    """Condition type → status."""
