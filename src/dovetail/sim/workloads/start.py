"""Starts the simulated kube-controller-manager: every controller, from one list."""

from collections.abc import Callable
from typing import Final

from dovetail.sim.apiserver.server import ApiServer
from dovetail.sim.engine import Engine
from dovetail.sim.workloads.census import PodCensus
from dovetail.sim.workloads.cronjobs import CronJobs
from dovetail.sim.workloads.daemonsets import DaemonSets
from dovetail.sim.workloads.deployments import Deployments
from dovetail.sim.workloads.disruptionbudgets import DisruptionBudgets
from dovetail.sim.workloads.jobs import Jobs
from dovetail.sim.workloads.lostinstances import LostInstances
from dovetail.sim.workloads.nodehealth import NodeHealth
from dovetail.sim.workloads.podgarbage import PodGarbage
from dovetail.sim.workloads.replicasets import ReplicaSets
from dovetail.sim.workloads.site import Site
from dovetail.sim.workloads.statefulsets import StatefulSets
from dovetail.sim.workloads.taintevictions import TaintEvictions

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
