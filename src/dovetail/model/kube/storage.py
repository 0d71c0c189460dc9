"""Storage objects: the fields that constrain where a pod can run."""

from datetime import datetime

import msgspec

from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.pod import NodeSelectorTerm

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


class PersistentVolumeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A PersistentVolumeClaim."""

    namespace: str
    name: str
    storage_class: str = ""
    volume: str = ""
    """Name of the bound PersistentVolume; empty if unbound."""
    annotations: FrozenDict[str, str] = EMPTY
    phase: str = "Pending"
    deleting: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class PersistentVolume(msgspec.Struct, frozen=True, kw_only=True):
    """A PersistentVolume."""

    name: str
    driver: str = ""
    """CSI driver; for an in-tree volume, the driver that replaces it."""
    is_local: bool = False
    """Local or hostPath volume; its hostname does not constrain new nodes."""
    node_terms: tuple[NodeSelectorTerm, ...] = ()
    deleting: bool = False


class StorageClass(msgspec.Struct, frozen=True, kw_only=True):
    """A StorageClass."""

    name: str
    provisioner: str = ""
    """CSI driver; in-tree names are translated."""
    binds_immediately: bool = False
    """``volumeBindingMode: Immediate``: binds before the pod is scheduled."""
    allowed_topologies: tuple[NodeSelectorTerm, ...] = ()
    is_default: bool = False
    created: datetime | None = None
