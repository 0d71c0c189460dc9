"""Checks a plan as kube-scheduler would; shares no code with the solver.

``check`` returns the violations of a plan. Inter-pod rules are checked by replay:
an order must exist in which every pod binds to its planned node. ``final_state``
is stricter: every pod, removed alone, must be able to bind again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import Plan, PlannedNode
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.checker.binding_order import (
    Arrivals,
    BindingSearch,
    StuckPod,
    equivalence_class,
)
from tests.support.scheduling.checker.claim_checks import Finding, LaunchOptions, check_claims
from tests.support.scheduling.checker.inter_pod import InterPodRules, has_inter_pod_rules
from tests.support.scheduling.checker.nodes import CheckedNode, existing_node
from tests.support.scheduling.checker.pod_checks import check_pods
from tests.support.scheduling.plans import expected_labels

FEW = 100
"""Up to this number of pods the replay searches for an order."""


class Violation(msgspec.Struct, frozen=True):
    """A rule that the plan violates."""

    rule: str
    about: str
    """The pod, node, NodePool or reservation."""
    message: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.about}: {self.message}"


def check(snapshot: ClusterSnapshot, plan: Plan) -> list[Violation]:
    """Return all violations of a plan."""
    findings = list(_check_bookkeeping(snapshot, plan))
    if not findings:  # With pods lost or duplicated the other checks mean nothing.
        options = LaunchOptions(snapshot)
        nodes = _nodes_after(snapshot, plan, options)
        findings += check_claims(snapshot, nodes, options)
        findings += check_pods(snapshot, nodes, options)
        findings += _check_inter_pod(snapshot, nodes)
    return [Violation(*finding) for finding in findings]


def final_state(snapshot: ClusterSnapshot, plan: Plan) -> list[Violation]:
    """Return the pods that could not bind again if removed alone."""
    nodes = _nodes_after(snapshot, plan, LaunchOptions(snapshot))
    return [
        Violation("final", pod.key, f"{node}: {violation}")
        for pod, node, violation in _final_violations(_arrivals(nodes), _inter_pod_rules(snapshot, nodes))
    ]


# --- Every pod once --------------------------------------------------------------------------


def _check_bookkeeping(snapshot: ClusterSnapshot, plan: Plan) -> Iterator[Finding]:
    expected = {pod.key: pod for pod in snapshot.pending_pods}
    leaving = {pod.key: pod for node in snapshot.nodes if node.deleting for pod in node.pods}
    seen = Counter(pod.key for pod in _all_pods(plan))
    for key in expected:
        if key not in seen:
            yield "lost", key, "is neither placed nor unschedulable"
    for key, times in seen.items():
        if times > 1:
            yield "duplicate", key, f"appears {times} times"
        if key not in expected and key not in leaving:
            yield "unknown", key, "was never pending"
    yield from _check_identity(plan, {**leaving, **expected})
    yield from _check_names(snapshot, plan)


def _check_identity(plan: Plan, expected: Mapping[str, Pod]) -> Iterator[Finding]:
    for pod in _all_pods(plan):
        original = expected.get(pod.key)
        if original is not None and (pod.spec, pod.labels) != (original.spec, original.labels):
            yield "changed", pod.key, "is not the pod that was pending"


def _check_names(snapshot: ClusterSnapshot, plan: Plan) -> Iterator[Finding]:
    names = Counter([node.name for node in plan.nodes] + [node.name for node in snapshot.nodes])
    for name, times in names.items():
        if times > 1:
            yield "name", name, "is the name of several nodes"
    existing = {node.name for node in snapshot.nodes}
    for placement in plan.existing:
        if placement.node not in existing:
            yield "unknown", placement.node, "is no existing node"
    for node in plan.nodes:
        if not node.pods:
            yield "empty", node.name, "is launched for no pod"


def _all_pods(plan: Plan) -> Iterator[Pod]:
    for node in plan.nodes:
        yield from node.pods
    for placement in plan.existing:
        yield from placement.pods
    for unschedulable in plan.unschedulable:
        yield unschedulable.pod


# --- Nodes after the plan ----------------------------------------------------------------


def _nodes_after(snapshot: ClusterSnapshot, plan: Plan, options: LaunchOptions) -> list[CheckedNode]:
    moved = {pod.key for pod in _all_pods(plan)}
    nodes = {node.name: existing_node(node) for node in snapshot.nodes}
    for node in snapshot.nodes:
        if node.deleting:
            checked = nodes[node.name]
            checked.resident = [pod for pod in checked.resident if pod.key not in moved]
            if not checked.resident:
                del nodes[node.name]
    for placement in plan.existing:
        if placement.node not in nodes:
            nodes[placement.node] = next(
                existing_node(node) for node in snapshot.nodes if node.name == placement.node
            )
        nodes[placement.node].arriving = list(placement.pods)
    return [*nodes.values(), *(_planned_node(node, options) for node in plan.nodes)]


def _planned_node(node: PlannedNode, options: LaunchOptions) -> CheckedNode:
    is_valid = node.nodepool in options.pools and node.instance_types
    return CheckedNode(
        name=node.name,
        labels=expected_labels(node) if is_valid else {},
        possible=options.labels(node) if is_valid else {},
        taints=options.pools[node.nodepool].template.taints if is_valid else (),
        resident=[],
        arriving=list(node.pods),
        planned=node,
    )


def _arrivals(nodes: Iterable[CheckedNode]) -> list[tuple[Pod, str]]:
    return [(pod, checked.name) for checked in nodes for pod in checked.arriving]


def _inter_pod_rules(snapshot: ClusterSnapshot, nodes: Sequence[CheckedNode]) -> InterPodRules:
    """Return the rules of all pods, with the running pods counted."""
    # Pods that are being deleted will be gone; no rule counts them.
    running = [(pod, checked.name) for checked in nodes for pod in checked.resident if not pod.deleting]
    arriving = [pod for pod, _ in _arrivals(nodes)]
    return InterPodRules(nodes, running, arriving, snapshot.namespaces)


# --- Spread, affinity, anti-affinity ---------------------------------------------------------


def _check_inter_pod(snapshot: ClusterSnapshot, nodes: Sequence[CheckedNode]) -> Iterator[Finding]:
    inter_pod = _inter_pod_rules(snapshot, nodes)
    for checked in nodes:
        if checked.planned is not None:
            yield from _check_open_domains(checked, inter_pod)
    for pod, name, violation in _find_stuck_pods(snapshot, nodes):
        yield "inter-pod", pod.key, f"could not bind to {name}: {violation}"


def _find_stuck_pods(snapshot: ClusterSnapshot, nodes: Sequence[CheckedNode]) -> list[StuckPod]:
    """Search for an order in which all pods bind; return stuck pods of the best one."""
    arrivals = _round_robin(_arrivals(nodes), {checked.name: checked for checked in nodes})
    inter_pod = _inter_pod_rules(snapshot, nodes)
    if len(arrivals) <= FEW:
        return BindingSearch(arrivals, inter_pod).find_stuck_pods()
    # With many pods only one order is tried, and only if the final state has violations.
    if not _final_violations(arrivals, inter_pod):
        return []
    return _bind(arrivals, _inter_pod_rules(snapshot, nodes))


def _final_violations(arrivals: Arrivals, inter_pod: InterPodRules) -> list[StuckPod]:
    """Bind all pods regardless of rules, then check each beside all the others."""
    for pod, node_name in arrivals:
        inter_pod.add(pod, node_name)
    violations = []
    for pod, node_name in arrivals:
        inter_pod.add(pod, node_name, -1)
        violation = inter_pod.violation(pod, node_name)
        inter_pod.add(pod, node_name)
        if violation is not None:
            violations.append((pod, node_name, violation))
    return violations


def _check_open_domains(checked: CheckedNode, inter_pod: InterPodRules) -> Iterator[Finding]:
    """Check that pods which a rule counts have a decided domain before the launch."""
    for pod in checked.arriving:
        key = inter_pod.open_key(pod, checked)
        if key is not None:
            values = ", ".join(sorted(map(str, checked.values(key))))
            yield "open-domain", pod.key, f"{checked.name} leaves {key} open: {values}"


def _bind(arrivals: Arrivals, inter_pod: InterPodRules) -> list[StuckPod]:
    """Bind pods repeatedly until none can be bound; return the remaining ones."""
    waiting = list(arrivals)
    while waiting:
        stuck: list[StuckPod] = []
        for pod, node_name in waiting:
            violation = inter_pod.violation(pod, node_name)
            if violation is None:
                inter_pod.add(pod, node_name)
            else:
                stuck.append((pod, node_name, violation))
        if len(stuck) == len(waiting):
            return stuck
        waiting = [(pod, node_name) for pod, node_name, _ in stuck]
    return []


def _round_robin(
    arrivals: Sequence[tuple[Pod, str]], nodes: Mapping[str, CheckedNode]
) -> list[tuple[Pod, str]]:
    """Order identical pods round-robin over zones, to keep their skew low."""
    ranks: Counter[object] = Counter()
    ranked = []
    for pod, checked in arrivals:
        key = (equivalence_class(pod), nodes[checked].domain(label_keys.ZONE))
        ranks[key] += 1
        ranked.append((not has_inter_pod_rules(pod.spec), ranks[key], pod, checked))
    ranked.sort(key=lambda entry: entry[:2])
    return [(pod, checked) for _, _, pod, checked in ranked]
