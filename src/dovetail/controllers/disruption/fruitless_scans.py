"""Fruitless scans: evaluations that found no command, and what they looked at.

Pods come and go all the time, yet most changes cannot make a command possible: a pod
that was bound takes room, and a node with a recent pod event neither moves nor receives
pods. An evaluation is worth its time only if a node has fewer pods than when it was
evaluated last, a node is new, or prices or settings differ.
"""

from collections import Counter
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from dovetail.controllers.disruption.scan_interval import MAX_INTERVAL
from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import KeepReason
from dovetail.core.disruption.method import Decision, Method, MethodInput
from dovetail.core.disruption.policy import Search
from dovetail.core.scheduling.pods.pending import find_pods_to_schedule
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import NO_CONDITIONS
from dovetail.model.kube.pod import PodSpec
from dovetail.model.kube.pod_groups import EquivalenceKey
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.workloads import DaemonSet
from dovetail.model.node import Node

_VALID_FOR: Final = MAX_INTERVAL
"""Room that became free on several nodes, one after the other, is evaluated together so late."""
_LARGE_BUDGET: Final = 10
"""Nodes: an evaluation that may disrupt so many finds nothing more if it may disrupt more."""
_WAITS: Final = frozenset(("young", "later", "budget"))
"""Codes of candidates that were kept for a while only."""


class _SeenCandidate(msgspec.Struct, frozen=True):
    candidate: Candidate
    node: Node
    reason: KeepReason | None


class FruitlessScans:
    """Evaluations of one method without a command, since it found the last one."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self._latest: tuple[MethodInput, Decision] | None = None
        self._environment: object = None
        self._evaluated_at: datetime | None = None
        self._candidates: dict[str, _SeenCandidate] = {}
        self._targets: dict[str, Node] = {}
        """Nodes that could receive pods, as they were when evaluated last."""

    def find_decision(self, inputs: MethodInput) -> Decision | None:
        """Return the decision without an evaluation; None: there may be a command now."""
        if self._method.get_time_state is None or self._latest is None:
            return None
        latest, decision = self._latest
        get_time_state = self._method.get_time_state
        # In this order: most inputs differ, and the second comparison looks at every pod.
        if _without_time(inputs) == _without_time(latest) and (
            get_time_state(inputs.required_context) == get_time_state(latest.required_context)
        ):
            return decision
        return self._derive_decision(inputs) if self._is_no_better(inputs) else None

    def record(self, inputs: MethodInput, decision: Decision) -> None:
        """Note the result of an evaluation."""
        context = inputs.required_context
        # A plug-in that declined every move may decide otherwise at another time.
        is_asked = decision.policy_answered or decision.policy_failure
        if self._method.get_time_state is None or decision.commands or is_asked:
            self.forget()
            return
        environment = _get_environment(inputs)
        if environment != self._environment:
            self.forget()
        self._latest = (inputs, decision)
        snapshot, reasons = context.snapshot, {reason.node: reason for reason in decision.keep_reasons}
        if inputs.policy.search is Search.KARPENTER:
            return  # Karpenter evaluates the cluster after every change.
        if find_pods_to_schedule(snapshot) or any(reason.code in _WAITS for reason in reasons.values()):
            return  # Pending pods took room that they may not take in the end.
        self._environment, self._evaluated_at = environment, snapshot.now
        nodes = {node.name: node for node in snapshot.nodes}
        self._targets = {name: node for name, node in self._targets.items() if name in nodes}
        self._targets.update(
            (name, node) for name, node in nodes.items() if name not in context.excluded_targets
        )
        self._candidates = {name: seen for name, seen in self._candidates.items() if name in nodes}
        for candidate in context.candidates:
            name = candidate.name
            if name in nodes:
                self._candidates[name] = _SeenCandidate(candidate, nodes[name], reasons.get(name))

    def forget(self) -> None:
        """Forget all evaluations, and the nodes and pods that they keep in memory."""
        self._latest = self._environment = self._evaluated_at = None
        self._candidates, self._targets = {}, {}

    def _is_no_better(self, inputs: MethodInput) -> bool:
        """Return True if no node allows more than it did when it was evaluated."""
        context = inputs.required_context
        now, latest = context.snapshot.now, self._latest
        if now is None or self._evaluated_at is None or latest is None:
            return False
        if now - self._evaluated_at >= _VALID_FOR or _get_environment(inputs) != self._environment:
            return False
        for pool, count in inputs.allowed_disruptions.items():
            if count > (allowed := latest[0].allowed_disruptions.get(pool, 0)) and allowed < _LARGE_BUDGET:
                return False
        nodes = {node.name: node for node in context.snapshot.nodes if not node.deleting}
        for name in nodes.keys() - context.excluded_targets:
            # A node that is not initialized receives no pods of others.
            seen, node = self._targets.get(name), nodes[name]
            if node.initialized and (seen is None or not _has_no_more_room(node, seen)):
                return False
        return all(
            self._is_candidate_no_better(candidate, nodes[candidate.name], now)
            for candidate in context.candidates
            if candidate.name in nodes
        )

    def _is_candidate_no_better(self, candidate: Candidate, node: Node, now: datetime) -> bool:
        seen = self._candidates.get(candidate.name)
        if seen is None or self._evaluated_at is None:
            return False
        created = candidate.claim.created
        if created is not None and _count_days(created, now) != _count_days(created, self._evaluated_at):
            return False
        if candidate is seen.candidate and node is seen.node:
            return True
        return (
            candidate.cost <= seen.candidate.cost
            and candidate.disruption_cost >= seen.candidate.disruption_cost
            and _is_same_node(node, seen.node)
            and _count_pods(node, with_deleting=False) >= _count_pods(seen.node, with_deleting=False)
        )

    def _derive_decision(self, inputs: MethodInput) -> Decision:
        """Return the latest reason for which each candidate was kept."""
        seen = (self._candidates.get(candidate.name) for candidate in inputs.candidates)
        reasons = (candidate.reason for candidate in seen if candidate is not None)
        return Decision(keep_reasons=tuple(reason for reason in reasons if reason is not None))


def _count_days(created: datetime, now: datetime) -> int:
    return (now - created) // timedelta(days=1)


def _has_no_more_room(node: Node, seen: Node) -> bool:
    return node is seen or (
        _is_same_node(node, seen)
        and _count_pods(node, with_deleting=True) >= _count_pods(seen, with_deleting=True)
    )


def _is_same_node(node: Node, seen: Node) -> bool:
    """Return True if two states of a node differ in its pods only."""
    return node is seen or (
        node.initialized == seen.initialized
        and node.effective_taints() == seen.effective_taints()
        and node.labels == seen.labels
        and node.allocatable == seen.allocatable
        and node.volume_limits == seen.volume_limits
    )


def _count_pods(node: Node, *, with_deleting: bool) -> Counter[EquivalenceKey]:
    counts: Counter[EquivalenceKey] = Counter()
    for group in node.pod_groups:
        if with_deleting or not group.deleting:
            counts[group.key] += len(group.pods)
    return counts


def _without_time(inputs: MethodInput) -> MethodInput:
    context = inputs.required_context
    return replace(inputs, context=replace(context, snapshot=replace(context.snapshot, now=None)))


def _get_environment(inputs: MethodInput) -> object:
    """Return all inputs but nodes, candidates and budgets."""
    snapshot = inputs.required_context.snapshot
    return (
        inputs.settings,
        inputs.scheduling,
        inputs.policy,
        tuple(map(_without_status, snapshot.nodepools)),
        snapshot.instance_types,
        tuple(map(_get_requirements, snapshot.daemon_sets)),
        snapshot.volume_claims,
        snapshot.volumes,
        snapshot.storage_classes,
        snapshot.namespaces,
        (snapshot.services, snapshot.workload_controllers) if inputs.scheduling.default_spreads else None,
    )


def _get_requirements(daemon_set: DaemonSet) -> tuple[PodSpec, Resources | None]:
    """Return what a DaemonSet needs on a node; its newest pod is another on each new node."""
    newest = daemon_set.newest_pod
    return daemon_set.pod.spec, newest.spec.requests if newest is not None else None


def _without_status(pool: NodePool) -> NodePool:
    """Return a NodePool without what its nodes change all the time."""
    return replace(pool, resource_version="", conditions=NO_CONDITIONS, resources=None, node_count=0)
