"""Whether a node is what was bought."""

from typing import Final

from dovetail.core.nodeclaim.lifecycle import INITIALIZED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.node import NodeObject

_LEAST_SHARE: Final = 0.90


def shape_mistakes(claim: NodeClaim, node: NodeObject) -> list[str]:
    """Return which requested resources a node has far less of than its claim expected."""
    if claim.deleting or not is_true(claim.conditions, INITIALIZED):
        return []
    found = []
    for name in sorted(claim.requests):
        expected = claim.capacity.get(name, 0)
        if not claim.requests[name] or not expected:
            continue
        share = node.capacity.get(name, 0) / expected
        if share < _LEAST_SHARE:
            percent = f"{share:.1%} of expected"
            found.append(f"expected {expected} of resource {name}, found less: {percent}")
    return found
