"""Pods to schedule, and specs that no node can satisfy."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from dovetail.core.pod.eligibility import is_currently_reschedulable, is_reschedulable
from dovetail.core.scheduling.pods.node_pods import get_node_pods
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod, PodSpec
from dovetail.model.kube.pod_groups import EquivalenceKey, PodGroup
from dovetail.model.kube.requirements import NUMERIC_OPERATORS, Operator, RequirementSpec
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.workloads import PodDisruptionBudget
from dovetail.model.node import Node
from dovetail.model.plan import Constraint, UnschedulableReason
from dovetail.model.snapshot import ClusterSnapshot

_PASSES_KEPT: Final = 100
"""Snapshots after which a group of pods that no node has any more is forgotten, or twice as many."""
_MAX_BUDGET_SETS: Final = 4
"""Sets of PodDisruptionBudgets that are kept; few are in use at a time."""
_FAR_FUTURE: Final = datetime.max.replace(tzinfo=UTC)
""""Now" of a snapshot without a time: every temporary protection has ended."""


def find_pods_to_schedule(snapshot: ClusterSnapshot) -> list[Pod]:
    """Return the pods to place: pending ones, and those on deleting nodes.

    Pods of DaemonSets and static pods are tied to their node; they are left out.
    """
    pods = [
        pod
        for pod in snapshot.pending_pods
        if not (pod.node_name or pod.nominated_node_name or pod.is_owned_by_daemon_set or pod.is_static)
    ]
    is_reschedulable_now = reschedulable_pod_filter(snapshot)
    for node in snapshot.nodes:
        if node.deleting:
            pods.extend(pod for pod in node.pods if is_reschedulable_now(pod))
    return pods


def reschedulable_pod_filter(snapshot: ClusterSnapshot) -> Callable[[Pod], bool]:
    """Return the predicate "will be rescheduled when its node is deleted"."""
    now = snapshot.now or _FAR_FUTURE
    get_budgets = _budget_lookup(snapshot)
    return lambda pod: is_currently_reschedulable(pod, get_budgets(pod), now)


def _budget_lookup(snapshot: ClusterSnapshot) -> Callable[[Pod], Sequence[PodDisruptionBudget]]:
    """Return a function from pod to its PodDisruptionBudgets."""
    budgets: dict[str, list[PodDisruptionBudget]] = {}
    for budget in snapshot.pod_disruption_budgets:
        budgets.setdefault(budget.namespace, []).append(budget)

    # Cached by labels: replicas share them, and each Deployment may have a budget.
    matching_budgets: dict[tuple[str, FrozenDict[str, str]], list[PodDisruptionBudget]] = {}

    def get_budgets(pod: Pod) -> Sequence[PodDisruptionBudget]:
        namespace_budgets = budgets.get(pod.namespace)
        if not namespace_budgets:
            return ()
        key = (pod.namespace, pod.labels)
        if key not in matching_budgets:
            matching_budgets[key] = [budget for budget in namespace_budgets if _protects(budget, pod)]
        return matching_budgets[key]

    return get_budgets


def reschedulable_group_filter(snapshot: ClusterSnapshot) -> Callable[[PodGroup], tuple[Pod, ...]]:
    """Return the same as a filter of pod groups: the pods that will be rescheduled."""
    is_reschedulable_now = reschedulable_pod_filter(snapshot)
    get_budgets = _budget_lookup(snapshot)
    may_be_kept: dict[EquivalenceKey, bool] = {}
    is_returning: dict[tuple[str, bool], bool] = {}

    def filter_group(pod_group: PodGroup) -> tuple[Pod, ...]:
        group_key = pod_group.key
        kept = may_be_kept.get(group_key)
        if kept is None:
            budgets = get_budgets(pod_group.pods[0])
            kept = len(budgets) > 1 or any(budget.blocks_all_evictions for budget in budgets)
            may_be_kept[group_key] = kept
        if pod_group.has_do_not_disrupt or kept:
            return tuple(pod for pod in pod_group.pods if is_reschedulable_now(pod))
        # For other running pods only owner kind and deletion decide.
        outcome_key = (group_key.owner.kind if group_key.owner is not None else "", pod_group.deleting)
        returning = is_returning.get(outcome_key)
        if returning is None:
            returning = is_returning[outcome_key] = is_reschedulable(pod_group.pods[0])
        return pod_group.pods if returning else ()

    return filter_group


def reschedulable_groups(
    snapshot: ClusterSnapshot,
) -> Callable[[Node], Sequence[tuple[EquivalenceKey, tuple[Pod, ...]]]]:
    """Return the same as a function of nodes: the groups of pods that will be rescheduled."""
    filter_group = reschedulable_group_filter(snapshot)
    keeping = _find_keeping_budgets(
        tuple(
            (budget.namespace, budget.selector, budget.blocks_all_evictions)
            for budget in snapshot.pod_disruption_budgets
        )
    )
    keeping.begin_pass()

    def filter_node(node: Node) -> Sequence[tuple[EquivalenceKey, tuple[Pod, ...]]]:
        node_pods = get_node_pods(node)
        if node_pods.has_do_not_disrupt or keeping.may_keep_any(node_pods.keys):
            return [(group.key, pods) for group in node.pod_groups if (pods := filter_group(group))]
        return node_pods.reschedulable

    return filter_node


class _KeepingBudgets:
    """Finds groups of pods that PodDisruptionBudgets may keep on a node for ever."""

    def __init__(self, budgets: Iterable[tuple[str, LabelSelector | None, bool]]) -> None:
        self._budgets: dict[str, list[tuple[LabelSelector, bool]]] = {}
        for namespace, selector, blocks_all_evictions in budgets:
            if selector is not None:
                self._budgets.setdefault(namespace, []).append((selector, blocks_all_evictions))
        self._free_keys: set[EquivalenceKey] = set()
        """Groups that no budget keeps."""
        self._older_keys: set[EquivalenceKey] = set()
        """The same, of earlier snapshots; those still in use move to the others."""
        self._passes = 0

    def begin_pass(self) -> None:
        """Forget groups that were not in use lately: the specs of deleted pods are freed."""
        self._passes += 1
        if self._passes % _PASSES_KEPT == 0:
            self._older_keys, self._free_keys = self._free_keys, set()

    def may_keep_any(self, keys: frozenset[EquivalenceKey]) -> bool:
        """Return True if budgets may keep pods of one of these groups."""
        if keys <= self._free_keys:
            return False
        free_keys = {key for key in keys if key in self._older_keys or not self._may_keep(key)}
        self._free_keys |= free_keys
        return len(free_keys) < len(keys)

    def _may_keep(self, key: EquivalenceKey) -> bool:
        """Return True if several budgets select a group's pods, or one that blocks all evictions."""
        selecting = [
            blocks_all_evictions
            for selector, blocks_all_evictions in self._budgets.get(key.namespace, ())
            if selector.matches(key.labels)
        ]
        return len(selecting) > 1 or any(selecting)


@lru_cache(maxsize=_MAX_BUDGET_SETS)
def _find_keeping_budgets(budgets: tuple[tuple[str, LabelSelector | None, bool], ...]) -> _KeepingBudgets:
    return _KeepingBudgets(budgets)


def _protects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    selector = budget.selector
    return selector is not None and selector.matches(pod.labels)


def find_invalid_spec(spec: PodSpec) -> UnschedulableReason | None:
    """Return why pods with this spec are not schedulable, whatever the NodePools."""
    if spec.needs_devices:
        return UnschedulableReason(
            "",
            Constraint.DEVICES,
            "uses resource claims (dynamic resource allocation), which are not supported",
        )
    if spec.node_terms and not any(term.expressions or term.fields for term in spec.node_terms):
        return _invalid_reason("has a required node affinity of empty terms, which match no node")
    if any(term.fields for term in spec.node_terms):
        return _invalid_reason("uses matchFields in its node affinity; only DaemonSets may")
    selector = [RequirementSpec(key, Operator.IN, (value,)) for key, value in spec.node_selector.items()]
    for expression in [*selector, *(e for term in spec.node_terms for e in term.expressions)]:
        problem = _find_problem(expression)
        if problem:
            return _invalid_reason(problem)
    if excludes_all_nodepools(spec):
        return _invalid_reason(f"excludes all NodePools ({label_keys.NODEPOOL} DoesNotExist)")
    return None


def drop_empty_terms(spec: PodSpec) -> PodSpec:
    """Return the spec without empty node affinity terms, which match no node."""
    if all(term.expressions for term in spec.node_terms):
        return spec
    return replace(spec, node_terms=tuple(t for t in spec.node_terms if t.expressions))


def excludes_all_nodepools(spec: PodSpec) -> bool:
    """Return True if pods with this spec do not want a node of any NodePool."""
    heaviest = max(spec.preferred_node_terms, key=lambda requirement: requirement.weight, default=None)
    terms = [*spec.node_terms[:1], *([heaviest.term] if heaviest else [])]
    return any(
        expression.key == label_keys.NODEPOOL and expression.operator is Operator.DOES_NOT_EXIST
        for term in terms
        for expression in term.expressions
    )


def _find_problem(requirement: RequirementSpec) -> str:
    key = label_keys.normalize_key(requirement.key)
    if label_keys.is_restricted(key):
        meant = label_keys.suggest_key(requirement.key)
        hint = f"; did you mean {meant!r}?" if meant else ""
        return f"label {requirement.key!r} may not be required: it is set by the system{hint}"
    if requirement.operator is Operator.IN and not requirement.values:
        return f"{requirement.key} In has no values"
    if key == label_keys.CAPACITY_TYPE and requirement.operator is Operator.IN:
        if not set(requirement.values) & set(label_keys.CAPACITY_TYPES):
            valid = ", ".join(label_keys.CAPACITY_TYPES)
            return f"{requirement.values[0]!r} is not a capacity type; use one of {valid}"
    if requirement.operator in NUMERIC_OPERATORS and not (
        len(requirement.values) == 1 and requirement.values[0].isdigit()
    ):
        return f"{requirement.key} {requirement.operator} needs exactly one whole number"
    return ""


def _invalid_reason(message: str) -> UnschedulableReason:
    return UnschedulableReason("", Constraint.INVALID_POD, message)


def resolve_namespaces(
    own: str,
    listed: tuple[str, ...],
    selector: LabelSelector | None,
    namespace_labels: Mapping[str, Mapping[str, str]],
) -> frozenset[str] | None:
    """Return the namespaces of a pod affinity term; None means all of them."""
    if selector is None:
        return frozenset(listed) if listed else frozenset({own})
    if not selector.match_labels and not selector.expressions:
        return None
    return frozenset(listed) | {name for name, labels in namespace_labels.items() if selector.matches(labels)}
