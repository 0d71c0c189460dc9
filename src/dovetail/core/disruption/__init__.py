"""Voluntary disruption: which nodes to delete or replace, and when.

::

    StateNode (NodeClaim + Node + pods)
        |  Method.check_eligibility       cheap, for every node of a scan
        |  candidates.check_disruptable   do-not-disrupt, PodDisruptionBudgets, nominations
        v
    Candidate
        |  budgets                        NodePool -> number of nodes allowed now
        v
    Method.decide, in the order of registry.METHODS:
        emptiness      delete empty nodes
        static drift   replace drifted nodes of static NodePools, one for one
        drift          replace drifted nodes, by scheduling simulation
        consolidation  delete or replace for a lower price: single nodes, sets, fleets
        |
        v
    Command (candidates, placements, replacements) or KeepReason per node
        |  Method.validation              after a delay, on a new context
        v
    disruption queue (controllers)        taints nodes, waits for the Replacement, deletes

The first method that starts a command ends a scan. All modules are pure: the
controllers in ``dovetail.controllers.disruption`` read the cluster and act.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.core.disruption.candidates import Candidate
    from dovetail.core.disruption.command import Command
    from dovetail.core.disruption.explain import explain_nodes
    from dovetail.core.disruption.method import Method
    from dovetail.core.disruption.registry import METHODS

__all__ = ["METHODS", "Candidate", "Command", "Method", "explain_nodes"]

_MODULES = {
    "METHODS": "registry",
    "Candidate": "candidates",
    "Command": "command",
    "Method": "method",
    "explain_nodes": "explain",
}


def __getattr__(name: str) -> Any:
    """Import exports on first use: the methods load the whole solver."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
