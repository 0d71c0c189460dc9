"""Watched labels: the node labels that constraints refer to."""

from typing import Final

from dovetail.model import labels as label_keys
from dovetail.model.kube.requirements import Requirements
from dovetail.model.node import Node

_MOST: Final = 4
"""Sets of keys cached per node; few are in use at a time."""


def watched_labels(node: Node, keys: frozenset[str]) -> Requirements:
    """Return the labels of a node among ``keys``; nodes have dozens of others."""
    requirements = node.requirements_cache.get(keys)
    if requirements is None:
        if len(node.requirements_cache) >= _MOST:
            node.requirements_cache.clear()
        requirements = node.requirements_cache[keys] = _noticed(node, keys)
    return requirements


def _noticed(node: Node, keys: frozenset[str]) -> Requirements:
    labels = {key: value for key, value in node.labels.items() if label_keys.normalize_key(key) in keys}
    if label_keys.HOSTNAME in keys:
        labels[label_keys.HOSTNAME] = node.hostname
    return Requirements.from_labels(labels)
