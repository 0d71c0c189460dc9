"""Start of the simulated kube-controller-manager: the list of its controllers."""

from collections.abc import Callable
from typing import Final

from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.controllermanager.autoscaling.controller import HorizontalPodAutoscalerController
from dovetail.simulator.controllermanager.context import LeaseHeartbeats, ManagerContext
from dovetail.simulator.controllermanager.daemonset.controller import DaemonSetController
from dovetail.simulator.controllermanager.deployment.controller import DeploymentController
from dovetail.simulator.controllermanager.endpointslice.controller import EndpointSliceController
from dovetail.simulator.controllermanager.garbage_collection import EventTtlController, PodGcController
from dovetail.simulator.controllermanager.job.controller import JobController
from dovetail.simulator.controllermanager.job.cronjob import CronJobController
from dovetail.simulator.controllermanager.node.node_lifecycle import (
    CloudNodeLifecycleController,
    NodeLifecycleController,
)
from dovetail.simulator.controllermanager.node.taint_eviction import TaintEvictionController
from dovetail.simulator.controllermanager.pdb import DisruptionController
from dovetail.simulator.controllermanager.pods.pod_index import PodIndex
from dovetail.simulator.controllermanager.replicaset import ReplicaSetController
from dovetail.simulator.controllermanager.resource_quota import ResourceQuotaController
from dovetail.simulator.controllermanager.statefulset import StatefulSetController

_CONTROLLERS: Final[tuple[Callable[[ManagerContext], object], ...]] = (
    DeploymentController,
    ReplicaSetController,
    StatefulSetController,
    DaemonSetController,
    JobController,
    CronJobController,
    DisruptionController,
    NodeLifecycleController,
    TaintEvictionController,
    CloudNodeLifecycleController,
    PodGcController,
    EventTtlController,
    ResourceQuotaController,
    HorizontalPodAutoscalerController,
    EndpointSliceController,
)


def start_controller_manager(
    api: ApiServer,
    clock: VirtualClock,
    *,
    instance_exists: Callable[[str], bool | None] | None = None,
    heartbeats: LeaseHeartbeats | None = None,
    keep_events: bool = True,
) -> None:
    """Start all controllers.

    ``instance_exists`` looks up an instance by provider ID (None: unknown). Without it no
    node is deleted because its instance is gone. Nodes without ``heartbeats`` are checked by
    reading their Leases. Without ``keep_events``, controllers record no Events.
    """
    context = ManagerContext(api, clock, PodIndex(api, clock), instance_exists, heartbeats, keep_events)
    for controller in _CONTROLLERS:
        controller(context)
