"""Consistency of a node with the expected capacity of its NodeClaim."""

from typing import Final

from dovetail.model.karpenter.condition_types import INITIALIZED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.node import NodeObject

_MIN_CAPACITY_SHARE: Final = 0.90


def find_missing_capacity(claim: NodeClaim, node: NodeObject) -> list[str]:
    """Return errors for requested resources of which the node has too little."""
    if claim.deleting or not is_true(claim.conditions, INITIALIZED):
        return []
    errors = []
    for name in sorted(claim.requests):
        expected = claim.capacity.get(name, 0)
        if not claim.requests[name] or not expected:
            continue
        share = node.capacity.get(name, 0) / expected
        if share < _MIN_CAPACITY_SHARE:
            percent = f"{share:.1%} of expected"
            errors.append(f"expected {expected} of resource {name}, found less: {percent}")
    return errors
