"""Cost of plans: instances, node costs, and the preference for fewer nodes.

A plan may be more expensive than another if it needs fewer nodes: by up to the
tolerance for half of the nodes or less, and in proportion for a smaller difference.
"""

from collections.abc import Iterable

from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import NodePool

_EPSILON = 1e-9
"""Relative difference below which two plans cost the same."""


def get_node_cost(pool: NodePool, types: Iterable[InstanceType], setting: float | None) -> float:
    """Return what each node of a NodePool costs beyond its instance, in USD per hour.

    The annotation of the NodePool takes precedence over the setting, and the setting
    over the node class, which all instance types of the NodePool share.
    """
    if pool.node_cost is not None:
        return pool.node_cost
    if setting is not None:
        return setting
    return next((instance_type.node_cost for instance_type in types), 0.0)


def is_better(cost: float, nodes: int, other_cost: float, other_nodes: int, tolerance: float) -> bool:
    """Return True if a plan is better: cheaper, or with enough fewer nodes.

    Costs are in USD per hour, with node costs.
    """
    if nodes < other_nodes:
        return cost <= get_accepted_cost(other_cost, other_nodes, nodes, tolerance)
    if cost >= other_cost * (1 - _EPSILON):
        return False
    return nodes == other_nodes or other_cost > get_accepted_cost(cost, nodes, other_nodes, tolerance)


def get_accepted_cost(cost: float, nodes: int, fewer_nodes: int, tolerance: float) -> float:
    """Return up to which cost a plan with fewer nodes is better than one of ``nodes`` nodes."""
    share_saved = 1 - fewer_nodes / nodes
    # With rounding errors: of plans at the same cost, fewer nodes are better.
    return cost * (1 + tolerance * min(1.0, 2 * share_saved) + _EPSILON)


def get_node_penalty(cost: float, nodes: float, tolerance: float) -> float:
    """Return what one node less is worth in a plan, in USD per hour.

    Minimizing cost plus penalties finds the plan that the tolerance prefers.
    """
    return 2 * tolerance * cost / max(1.0, nodes)
