"""Columns of existing nodes (free resources, labels, taints), cached on them.

What a node has to offer depends on the node and on the *layout* of the arrays:
resources, label keys that matter, and the requests of DaemonSets. Layouts rarely
change, and most nodes are the same objects in consecutive snapshots.
"""

from functools import lru_cache
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from dovetail.core.scheduling.constraints.daemonsets import DaemonSetOverhead
from dovetail.core.scheduling.pods.watched_labels import watched_labels
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.taints import Taint
from dovetail.model.node import Node

_CACHE_KEY: Final = "column"
_MAX_LAYOUTS: Final = 8
"""Layouts that are kept: those of provisioning and of disruption differ."""


class NodeProfile:
    """Watched labels and taints; nodes with equal ones share the object."""

    __slots__ = ("__weakref__", "labels", "taints")

    def __init__(self, labels: Requirements, taints: tuple[Taint, ...]) -> None:
        self.labels = labels
        self.taints = taints


class NodeColumn(NamedTuple):
    """One existing node in a layout."""

    layout: "NodeLayout"
    available: tuple[float, ...]
    """[resources]: what pods may use; -1 in all if the node is overcommitted."""
    profile: NodeProfile


class NodeLayout:
    """Axes of the arrays over nodes."""

    def __init__(
        self, resource_names: tuple[str, ...], watched_keys: frozenset[str], daemonsets: DaemonSetOverhead
    ) -> None:
        self._resource_names = resource_names
        self._watched_keys = watched_keys
        self._daemonsets = daemonsets
        self._profiles: WeakValueDictionary[tuple[Requirements, tuple[Taint, ...]], NodeProfile] = (
            WeakValueDictionary()
        )

    def get_column(self, node: Node) -> NodeColumn:
        """Return the column of a node; cached on it for the latest layout."""
        column: NodeColumn | None = node.derived_values.get(_CACHE_KEY)
        if column is None or column.layout is not self:
            column = node.derived_values[_CACHE_KEY] = self._compile(node)
        return column

    def _compile(self, node: Node) -> NodeColumn:
        left = node.available() - self._daemonsets.remaining_on(node)
        # An overcommitted node takes no more pods.
        is_overcommitted = min(left.values(), default=0) < 0
        key = (watched_labels(node, self._watched_keys), node.effective_taints())
        profile = self._profiles.get(key)
        if profile is None:
            profile = self._profiles[key] = NodeProfile(*key)
        available = tuple(
            -1.0 if is_overcommitted else float(left.get(name, 0)) for name in self._resource_names
        )
        return NodeColumn(self, available, profile)


@lru_cache(maxsize=_MAX_LAYOUTS)
def get_layout(
    resource_names: tuple[str, ...], watched_keys: frozenset[str], daemonsets: DaemonSetOverhead
) -> NodeLayout:
    """Return the layout; the same object for equal axes."""
    return NodeLayout(resource_names, watched_keys, daemonsets)
