"""Nodes that are marked to go and are not going yet."""

from dovetail.model.kube.conditions import is_true
from dovetail.model.node import Node
from dovetail.state.cluster.cache import Mirror


def is_only_marked(node: Node, mirror: Mirror) -> bool:
    """Tell whether a node keeps its pods for now: it waits for what is to replace it.

    Its taint keeps other pods away. Who put it there has seen to a place for its
    pods; nobody else has to look for one before the node really goes.
    """
    if not node.deleting or not node.claim:
        return False
    claim, itself = mirror.claim(node.claim), mirror.node(node.name)
    if claim is None or itself is None or claim.deleting or itself.deleting:
        return False
    return not is_true(claim.conditions, "InstanceTerminating")
