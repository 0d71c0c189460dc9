"""EKS: create, update and delete a cluster from one file, cluster.yaml.

The file is loaded and validated as a whole. It determines the desired resources,
in AWS and in Kubernetes, as plain data with references between them. Handlers,
one per resource kind, observe what exists. The difference is a plan: steps that
create, update or delete one resource each, in dependency order. There is no state
file: resources are found by name and by an ownership tag, so that an interrupted
run is simply repeated::

    cluster.yaml ─ config, validation ─> ClusterConfig ─ desired ─> desired resources
                                                             │               │
    AWS, Kubernetes ─ resources (handlers), apply.observer ─> observed ─ plan (diff)
                                                                             │
                  resources (handlers) <─ apply.executor <──────────────── steps
                                       <─ destroy (deletion, leftovers)

``session`` opens the connections that one command needs. ``render`` writes the
desired resources for CloudFormation, Terraform, kubectl and Helm instead.

Exports are loaded on first use: planning imports boto3, rendering does not. The
functions are not named ``plan``, ``apply``, ``destroy`` and ``render``, because
sub-packages have these names.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.eks.apply.executor import execute_plan
    from dovetail.eks.desired.desired_state import desired_state
    from dovetail.eks.destroy.destroy import destroy_cluster
    from dovetail.eks.plan.planner import plan_changes
    from dovetail.eks.render.formats import render_files
    from dovetail.eks.session import run_in_session
    from dovetail.eks.validation.load import load_config

_MODULES = {
    "desired_state": "desired.desired_state",
    "destroy_cluster": "destroy.destroy",
    "execute_plan": "apply.executor",
    "load_config": "validation.load",
    "plan_changes": "plan.planner",
    "render_files": "render.formats",
    "run_in_session": "session",
}

__all__ = [
    "desired_state",
    "destroy_cluster",
    "execute_plan",
    "load_config",
    "plan_changes",
    "render_files",
    "run_in_session",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
