"""Starts the simulated kube-controller-manager: every controller, from one list."""

from collections.abc import Callable
from typing import Final

from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.clock import Engine
from dovetail.simulator.controllermanager.context import Site
from dovetail.simulator.controllermanager.daemonset.controller import DaemonSets
from dovetail.simulator.controllermanager.deployment.controller import Deployments
from dovetail.simulator.controllermanager.job.controller import Jobs
from dovetail.simulator.controllermanager.job.cronjob import CronJobs
from dovetail.simulator.controllermanager.node.cloud_node_lifecycle import LostInstances
from dovetail.simulator.controllermanager.node.node_lifecycle import NodeHealth
from dovetail.simulator.controllermanager.node.taint_eviction import TaintEvictions
from dovetail.simulator.controllermanager.pdb import DisruptionBudgets
from dovetail.simulator.controllermanager.pod_gc import PodGarbage
from dovetail.simulator.controllermanager.pods.pod_index import PodCensus
from dovetail.simulator.controllermanager.replicaset import ReplicaSets
from dovetail.simulator.controllermanager.statefulset.controller import StatefulSets

_CONTROLLERS: Final[tuple[Callable[[Site], object], ...]] = (
    Deployments,
    ReplicaSets,
    StatefulSets,
    DaemonSets,
    Jobs,
    CronJobs,
    DisruptionBudgets,
    NodeHealth,
    TaintEvictions,
    LostInstances,
    PodGarbage,
)


def start_workloads(
    api: ApiServer,
    engine: Engine,
    *,
    instance_exists: Callable[[str], bool | None] | None = None,
) -> None:
    """Have workloads turned into pods, and nodes looked after, from now on.

    ``instance_exists`` tells by provider id whether the cloud still has an
    instance (None: it cannot say now); without it no node is given up for lost.
    """
    site = Site(api, engine, PodCensus(api, engine), instance_exists)
    for controller in _CONTROLLERS:
        controller(site)
