"""Plans of other fleets for the pods of a cluster."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from dovetail.core.pod.eligibility import is_reschedulable
from dovetail.core.scheduling.solver import solve
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod, PodSpec
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.node import Node
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot

_MAX_ROUNDS: Final = 4
"""Plans until nodes whose pods fit nowhere else are known; each keeps more nodes."""

ChangePod = Callable[[Pod, Node], Pod]


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet for all pods: nodes that stay, and new ones."""

    kept: frozenset[str]
    """Names of removable nodes that stay because pods of theirs fit on no other node."""
    new_nodes: int
    price: float
    """USD per hour of the new nodes."""
    message: str = ""
    """Why the first of the kept nodes stays."""


def plan_fleet(
    snapshot: ClusterSnapshot, removable: Iterable[str], settings: SchedulingSettings, change: ChangePod
) -> Fleet:
    """Plan new nodes for the pods of all removable nodes; others stay.

    A removable node stays if one of its pods fits nowhere else. ``change`` is applied to
    every pod that moves.
    """
    removed = set(removable)
    kept: set[str] = set()
    message = ""
    for _ in range(_MAX_ROUNDS):
        moving = [
            replace(change(pod, node), node_name="", nominated_node_name="")
            for node in snapshot.nodes
            if node.name in removed
            for pod in node.pods
            if is_reschedulable(pod)
        ]
        home = {pod.key: node.name for node in snapshot.nodes if node.name in removed for pod in node.pods}
        staying = tuple(node for node in snapshot.nodes if node.name not in removed)
        plan = solve(
            replace(snapshot, nodes=staying, pending_pods=(*snapshot.pending_pods, *moving)), settings
        )
        stuck = {home[entry.pod.key] for entry in plan.unschedulable if entry.pod.key in home}
        if not stuck:
            break
        if not message:
            first = next(entry for entry in plan.unschedulable if entry.pod.key in home)
            reasons = "; ".join(
                f"NodePool {reason.nodepool}: {reason.message}" if reason.nodepool else reason.message
                for reason in first.reasons[:2]
            )
            message = f"pod {first.pod.key} fits on no other node: {reasons}"
        kept |= stuck
        removed -= stuck
    return Fleet(kept=frozenset(kept), new_nodes=len(plan.nodes), price=plan.price, message=message)


def allow_values(pools: Sequence[NodePool], key: str, values: Sequence[str]) -> tuple[NodePool, ...]:
    """Return NodePools that accept more values of a label that they name."""

    def allow(spec: RequirementSpec) -> RequirementSpec:
        if spec.key != key or spec.operator is not Operator.IN:
            return spec
        return replace(spec, values=tuple(sorted({*spec.values, *values})))

    return tuple(
        replace(
            pool, template=replace(pool.template, requirements=tuple(map(allow, pool.template.requirements)))
        )
        for pool in pools
    )


class PodHolds:
    """Keeps pods of inferred NodePools on their capacity type and architecture.

    kube-scheduler could place them on the nodes of every group, but a saving by such a move
    is a decision of its own. Equal specs stay one object.
    """

    KEYS: Final = (label_keys.CAPACITY_TYPE, label_keys.ARCH)

    def __init__(self, pools: Iterable[str]) -> None:
        self._pools = frozenset(pools)
        self._specs: dict[tuple[PodSpec, tuple[tuple[str, str], ...]], PodSpec] = {}

    def hold(self, pod: Pod, node: Node) -> Pod:
        """Return a pod as it is planned by default."""
        keys = self.KEYS if node.labels.get(label_keys.NODEPOOL) in self._pools else ()
        return self._restrict(pod, node, keys)

    def release(self, pod: Pod, node: Node, key: str) -> Pod:
        """Return a pod that may move to nodes with another value of one label."""
        keys = self.KEYS if node.labels.get(label_keys.NODEPOOL) in self._pools else ()
        return self._restrict(pod, node, [each for each in keys if each != key])

    def hold_label(self, pod: Pod, node: Node, key: str) -> Pod:
        """Return a pod that must not move to nodes with another value of one label."""
        keys = self.KEYS if node.labels.get(label_keys.NODEPOOL) in self._pools else (key,)
        return self._restrict(pod, node, keys)

    def _restrict(self, pod: Pod, node: Node, keys: Sequence[str]) -> Pod:
        added = tuple(
            (key, node.labels[key])
            for key in keys
            if node.labels.get(key) and key not in pod.spec.node_selector
        )
        if not added:
            return pod
        spec = self._specs.get((pod.spec, added))
        if spec is None:
            selector = FrozenDict({**pod.spec.node_selector, **dict(added)})
            spec = self._specs[(pod.spec, added)] = replace(pod.spec, node_selector=selector)
        return replace(pod, spec=spec)
