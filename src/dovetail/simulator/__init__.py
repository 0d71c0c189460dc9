"""Simulated cluster: Kubernetes and EC2 in memory, in virtual time.

A ``SimulatedCluster`` runs the controllers of the real operator against simulated
ports. A virtual clock drives everything: each component schedules calls on it, and
time jumps from one call to the next. Nothing here does I/O, except
``simulator.rest``, which serves the API over HTTPS. Equal seeds give equal runs::

    Scenario --> ScenarioRunner --> VirtualClock --> VirtualEventLoop
                       |                                    |
                       v                                    v
    scheduler <--> API server (in memory) <--> controllers of the operator
    controller manager    ^                                 |
    storage controllers   |                                 v
                       kubelets <-- boot, terminate -- EC2 account
                                                   (capacity, billing, interruptions)

The scheduler, the controller manager, the storage controllers and the kubelets
watch the API server and write to it. EC2 launches instances for the operator's
CloudProvider; a kubelet starts when an instance has booted.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.simulator.cluster import SimulatedCluster
    from dovetail.simulator.scenario.model import Scenario
    from dovetail.simulator.scenario_runner import run_scenario

__all__ = ["Scenario", "SimulatedCluster", "run_scenario"]


_MODULES = {
    "Scenario": "dovetail.simulator.scenario.model",
    "SimulatedCluster": "dovetail.simulator.cluster",
    "run_scenario": "dovetail.simulator.scenario_runner",
}


def __getattr__(name: str) -> Any:
    # Lazy: a simulated cluster imports most of the program.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
