"""ClusterSnapshot: all that a decision may see."""

from datetime import datetime

import msgspec

from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.storage import StorageClass, Volume, VolumeClaim
from dovetail.model.kube.workloads import Controller, DaemonSet, DisruptionBudget, Service
from dovetail.model.node import Node


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One consistent picture of the cluster at one instant."""

    now: datetime | None = None
    pending: tuple[Pod, ...] = ()
    """Pods that wait for a node."""
    nodes: tuple[Node, ...] = ()
    node_pools: tuple[NodePool, ...] = ()
    instance_types: FrozenDict[str, tuple[InstanceType, ...]] = FrozenDict()
    """NodePool name → the types it could buy, priced."""
    daemon_sets: tuple[DaemonSet, ...] = ()
    volume_claims: tuple[VolumeClaim, ...] = ()
    volumes: tuple[Volume, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    namespaces: FrozenDict[str, FrozenDict[str, str]] = FrozenDict()
    """Namespace → its labels; one that is missing has none."""
    disruption_budgets: tuple[DisruptionBudget, ...] = ()
    services: tuple[Service, ...] = ()
    controllers: tuple[Controller, ...] = ()
