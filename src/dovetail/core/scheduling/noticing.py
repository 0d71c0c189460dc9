"""The labels of a node that anybody looks at."""

from collections.abc import Set as AbstractSet

from dovetail.model import labels as label_keys
from dovetail.model.nodes import Node
from dovetail.model.requirements import Requirements


def noticed(node: Node, keys: AbstractSet[str]) -> Requirements:
    """Return a node's labels, as far as they are among ``keys``; nodes have dozens of others."""
    labels = {
        key: value for key, value in node.labels.items() if label_keys.stable_key(key) in keys
    }
    if label_keys.HOSTNAME in keys:
        labels[label_keys.HOSTNAME] = node.hostname
    return Requirements.of_labels(labels)
