"""Objects around pods that a placement looks at."""

import msgspec

from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.selectors import LabelSelector


class DaemonSet(msgspec.Struct, frozen=True, kw_only=True):
    """A DaemonSet, by the pod it puts on each node that it matches."""

    namespace: str
    name: str
    pod: Pod
    """From its template, missing requests filled from limits."""
    newest: Pod | None = None
    """Its newest live pod; what that requests counts more than the template."""


class DisruptionBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget."""

    namespace: str
    name: str
    selector: LabelSelector | None = None
    min_available: str | None = None
    max_unavailable: str | None = None
    always_allow_unhealthy: bool = False
    allowed: int = 0
    """How many of its pods may go now, as its status says."""

    @property
    def blocks_fully(self) -> bool:
        """Tell whether it lets nobody go, ever."""
        return self.max_unavailable in ("0", "0%") or self.min_available == "100%"


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A Service, by whom it selects."""

    namespace: str
    name: str
    selector: FrozenDict[str, str] = EMPTY


class Controller(msgspec.Struct, frozen=True, kw_only=True):
    """A ReplicaSet, StatefulSet or ReplicationController, by whom it selects."""

    kind: str
    namespace: str
    name: str
    selector: LabelSelector | None = None
