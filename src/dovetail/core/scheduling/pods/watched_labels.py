"""The labels of a node that anybody looks at."""

from typing import Final

from dovetail.model import labels as label_keys
from dovetail.model.kube.requirements import Requirements
from dovetail.model.node import Node

_MOST: Final = 4
"""Who looks at labels, and for which: few of them at a time."""


def noticed(node: Node, keys: frozenset[str]) -> Requirements:
    """Return a node's labels, as far as they are among ``keys``; nodes have dozens of others."""
    known = node.noticed.get(keys)
    if known is None:
        if len(node.noticed) >= _MOST:
            node.noticed.clear()
        known = node.noticed[keys] = _noticed(node, keys)
    return known


def _noticed(node: Node, keys: frozenset[str]) -> Requirements:
    labels = {
        key: value for key, value in node.labels.items() if label_keys.stable_key(key) in keys
    }
    if label_keys.HOSTNAME in keys:
        labels[label_keys.HOSTNAME] = node.hostname
    return Requirements.of_labels(labels)
