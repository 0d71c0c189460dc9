"""Displaced pods: assigned pods that their node no longer accepts.

kube-scheduler does not know assignments. Other pods may have taken the capacity of a
node, ports or the allowed skew; pods of DaemonSets may be larger than planned; a taint
may have been added. The check uses the rules of the solver, so a pod is displaced
only if the solver itself would not place it there. That kube-scheduler has not bound
it yet is no reason: it may be slow.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from dovetail.core.scheduling.placement_order import place_all, split_invalid
from dovetail.core.scheduling.placer import Placer
from dovetail.core.scheduling.pods.default_spread import DefaultSpreads
from dovetail.core.scheduling.pods.equivalence import classify, selector_keys
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.trial import CLOSED
from dovetail.model.kube.pod import Pod, PodSpec
from dovetail.model.node import Node
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot


def find_displaced_pods(
    snapshot: ClusterSnapshot, settings: SchedulingSettings, assigned: Mapping[str, Sequence[Pod]]
) -> list[Pod]:
    """Return the pods that no longer fit the node they are assigned to.

    ``assigned`` maps the name of a node to unbound pods, which the snapshot counts as
    bound to it. Costs one compiled problem per node, without NodePools; of that node
    alone, if no topology relates its pods to those of other nodes.
    """
    nodes = {node.name: node for node in snapshot.nodes}
    repelling = frozenset(
        group.key.spec for node in snapshot.nodes for group in node.pod_groups if group.key.spec.anti_affinity
    )
    displaced: list[Pod] = []
    for name, pods in assigned.items():
        if name in nodes:
            displaced += _find_displaced_from(nodes[name], pods, snapshot, settings, repelling)
    return displaced


def _find_displaced_from(
    node: Node,
    pods: Sequence[Pod],
    snapshot: ClusterSnapshot,
    settings: SchedulingSettings,
    repelling: frozenset[PodSpec],
) -> list[Pod]:
    """Return the displaced pods of one node; ``repelling`` specs have anti-affinity."""
    if node.deleting:
        return list(pods)
    spreads = settings.default_spreads
    is_related = bool(repelling or spreads) or any(_has_topology(pod.spec) for pod in pods)
    others = snapshot.nodes if is_related else (node,)
    uids = {pod.uid for pod in pods}
    without_pods = replace(node, pods=tuple(pod for pod in node.pods if pod.uid not in uids))
    snapshot = replace(
        snapshot,
        pending_pods=(),
        nodes=tuple(without_pods if other is node else other for other in others),
        # kube-scheduler knows only the domains of existing nodes.
        nodepools=(),
    )
    spec_of = DefaultSpreads(snapshot, spreads).spec_of if spreads else None
    classes = classify(pods, selector_keys(repelling), spec_of)
    valid, _ = split_invalid(classes, snapshot, settings)
    problem = Problem(snapshot, settings, valid, frozenset())
    target = problem.nodes.index_by_name[node.name]
    closed = [index for index in range(problem.nodes.existing_count) if index != target]
    problem.nodes.available[:, closed] = CLOSED
    place_all(Placer(problem, defer=False))
    return [pod for pod_class in valid for pod in pod_class.pods[pod_class.placed :]]


def _has_topology(spec: PodSpec) -> bool:
    return bool(spec.spreads or spec.affinity or spec.anti_affinity)
