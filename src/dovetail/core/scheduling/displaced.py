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
from dovetail.model.kube.pod import Pod
from dovetail.model.node import Node
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot


def find_displaced_pods(
    snapshot: ClusterSnapshot, settings: SchedulingSettings, assigned: Mapping[str, Sequence[Pod]]
) -> list[Pod]:
    """Return the pods that no longer fit the node they are assigned to.

    ``assigned`` maps the name of a node to unbound pods, which the snapshot counts as
    bound to it. Costs one compiled problem per node, without NodePools.
    """
    nodes = {node.name: node for node in snapshot.nodes}
    displaced: list[Pod] = []
    for name, pods in assigned.items():
        if name in nodes:
            displaced += _find_displaced_from(nodes[name], pods, snapshot, settings)
    return displaced


def _find_displaced_from(
    node: Node, pods: Sequence[Pod], snapshot: ClusterSnapshot, settings: SchedulingSettings
) -> list[Pod]:
    if node.deleting:
        return list(pods)
    uids = {pod.uid for pod in pods}
    without_pods = replace(node, pods=tuple(pod for pod in node.pods if pod.uid not in uids))
    snapshot = replace(
        snapshot,
        pending_pods=(),
        nodes=tuple(without_pods if other is node else other for other in snapshot.nodes),
        # kube-scheduler knows only the domains of existing nodes.
        nodepools=(),
    )
    spreads = settings.default_spreads
    spec_of = DefaultSpreads(snapshot, spreads).spec_of if spreads else None
    running_specs = {pod.spec for other in snapshot.nodes for pod in other.pods if pod.spec.anti_affinity}
    classes = classify(pods, selector_keys(running_specs), spec_of)
    valid, _ = split_invalid(classes, snapshot, settings)
    problem = Problem(snapshot, settings, valid, frozenset())
    target = problem.nodes.index_by_name[node.name]
    others = [index for index in range(problem.nodes.existing_count) if index != target]
    problem.nodes.available[:, others] = CLOSED
    place_all(Placer(problem, defer=False))
    return [pod for pod_class in valid for pod in pod_class.pods[pod_class.placed :]]
