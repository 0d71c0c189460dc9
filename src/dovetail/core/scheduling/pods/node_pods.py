"""Pods of a node as a problem reads them, computed once per node.

Most nodes are the same objects in consecutive snapshots. What follows from their
pods alone is cached on them, so that compiling a problem costs little per node.
"""

from typing import Final

import msgspec

from dovetail.core.pod.eligibility import is_reschedulable
from dovetail.model.kube.pod import HostPort, Pod, PodSpec
from dovetail.model.kube.pod_groups import EquivalenceKey
from dovetail.model.kube.resources import Resources, sum_resources
from dovetail.model.node import Node

_CACHE_KEY: Final = "pods"


class NodePods(msgspec.Struct, frozen=True):
    """Pods of one node that are not terminal."""

    reschedulable: tuple[tuple[EquivalenceKey, tuple[Pod, ...]], ...]
    """Groups that need another node if this one is removed, unless something keeps them."""
    keys: frozenset[EquivalenceKey]
    """Equivalence keys of these groups."""
    has_do_not_disrupt: bool
    """A pod has the annotation do-not-disrupt, so that it may be kept."""
    running: tuple[tuple[EquivalenceKey, int], ...]
    """Equivalence key → number of pods that are not being deleted; each key once."""
    anti_affinity_specs: tuple[PodSpec, ...]
    """Specs with required anti-affinity."""
    host_ports: tuple[HostPort, ...]
    daemonset_requests: Resources


def get_node_pods(node: Node) -> NodePods:
    """Return the pods of a node; cached on it."""
    pods: NodePods | None = node.derived_values.get(_CACHE_KEY)
    if pods is None:
        pods = node.derived_values[_CACHE_KEY] = _collect_pods(node)
    return pods


def _collect_pods(node: Node) -> NodePods:
    groups = node.pod_groups
    running: dict[EquivalenceKey, int] = {}
    for group in groups:
        if not group.deleting:
            running[group.key] = running.get(group.key, 0) + len(group.pods)
    reschedulable = tuple((group.key, group.pods) for group in groups if is_reschedulable(group.pods[0]))
    return NodePods(
        reschedulable=reschedulable,
        keys=frozenset(key for key, _ in reschedulable),
        has_do_not_disrupt=any(group.has_do_not_disrupt for group in groups),
        running=tuple(running.items()),
        anti_affinity_specs=tuple(group.key.spec for group in groups if group.key.spec.anti_affinity),
        host_ports=tuple(port for group in groups for port in group.key.spec.host_ports),
        daemonset_requests=sum_resources(
            pod.spec.requests
            for group in groups
            if group.pods[0].is_owned_by_daemon_set
            for pod in group.pods
        ),
    )
