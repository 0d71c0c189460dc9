"""ClusterSnapshot: immutable input of scheduling and disruption decisions."""

from datetime import datetime

import msgspec

from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from dovetail.model.kube.workloads import DaemonSet, PodDisruptionBudget, Service, WorkloadController
from dovetail.model.node import Node


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Consistent state of the cluster at one instant."""

    now: datetime | None = None
    pending_pods: tuple[Pod, ...] = ()
    """Unbound pods that need a node."""
    nodes: tuple[Node, ...] = ()
    nodepools: tuple[NodePool, ...] = ()
    instance_types: FrozenDict[str, tuple[InstanceType, ...]] = FrozenDict()
    """NodePool name → instance types it can launch, with offerings and prices."""
    daemon_sets: tuple[DaemonSet, ...] = ()
    volume_claims: tuple[PersistentVolumeClaim, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    namespaces: FrozenDict[str, FrozenDict[str, str]] = FrozenDict()
    """Namespace → its labels; a missing namespace has no labels."""
    pod_disruption_budgets: tuple[PodDisruptionBudget, ...] = ()
    services: tuple[Service, ...] = ()
    workload_controllers: tuple[WorkloadController, ...] = ()
