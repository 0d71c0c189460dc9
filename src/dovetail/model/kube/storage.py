"""Volumes, as far as they say where a pod can run."""

from datetime import datetime

import msgspec

from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.pod import NodeTerm

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


class VolumeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A PersistentVolumeClaim."""

    namespace: str
    name: str
    storage_class: str = ""
    volume: str = ""
    """The PersistentVolume it is bound to."""
    annotations: FrozenDict[str, str] = EMPTY
    phase: str = "Pending"
    deleting: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class Volume(msgspec.Struct, frozen=True, kw_only=True):
    """A PersistentVolume."""

    name: str
    driver: str = ""
    """CSI driver; in-tree volumes carry the driver that took over from them."""
    local: bool = False
    """A local or hostPath volume, whose hostname says nothing about new nodes."""
    node_terms: tuple[NodeTerm, ...] = ()
    deleting: bool = False


class StorageClass(msgspec.Struct, frozen=True, kw_only=True):
    """A StorageClass."""

    name: str
    provisioner: str = ""
    """In the CSI spelling, also for in-tree names."""
    immediate: bool = False
    """Binds before a pod is placed (volumeBindingMode Immediate)."""
    topologies: tuple[NodeTerm, ...] = ()
    default: bool = False
    created: datetime | None = None
