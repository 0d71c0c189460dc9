"""Which pods need a place, and which cannot be helped by any node."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from dovetail.core.pod.eligibility import is_currently_reschedulable, is_reschedulable
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod, PodSpec
from dovetail.model.kube.pod_groups import Alike
from dovetail.model.kube.requirements import NUMERIC, Operator, RequirementSpec
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.workloads import DisruptionBudget
from dovetail.model.plan import Constraint, Refusal
from dovetail.model.snapshot import ClusterSnapshot

_FAR_FUTURE: Final = datetime.max.replace(tzinfo=UTC)
"""For a snapshot without a time: protection that ends some day has ended."""


def wanting(snapshot: ClusterSnapshot) -> list[Pod]:
    """Return the pods to place: those that wait, and those about to lose their node.

    Pods of DaemonSets and of kubelets follow their node; they never ask for one.
    """
    waiting = [
        pod
        for pod in snapshot.pending
        if not (pod.node_name or pod.nominated_node or pod.of_daemon_set or pod.static)
    ]
    will_ask = asking(snapshot)
    for node in snapshot.nodes:
        if node.deleting:
            waiting.extend(pod for pod in node.pods if will_ask(pod))
    return waiting


def asking(snapshot: ClusterSnapshot) -> Callable[[Pod], bool]:
    """Return the test whether a pod, its node going away, will soon ask for another."""
    now = snapshot.now or _FAR_FUTURE
    budgets: dict[str, list[DisruptionBudget]] = {}
    for one in snapshot.disruption_budgets:
        budgets.setdefault(one.namespace, []).append(one)

    # Replicas have the same labels, and every Deployment may have a budget.
    known: dict[tuple[str, FrozenDict[str, str]], list[DisruptionBudget]] = {}

    def will_ask(pod: Pod) -> bool:
        near = budgets.get(pod.namespace)
        if not near:
            return is_currently_reschedulable(pod, (), now)
        key = (pod.namespace, pod.labels)
        if key not in known:
            known[key] = [one for one in near if _protects(one, pod)]
        return is_currently_reschedulable(pod, known[key], now)

    return will_ask


def those_asking(snapshot: ClusterSnapshot) -> Callable[[Alike], tuple[Pod, ...]]:
    """Return the same test for pods that are alike: who of them will ask."""
    will_ask = asking(snapshot)
    budgeted = {one.namespace for one in snapshot.disruption_budgets}
    known: dict[tuple[str, bool], bool] = {}

    def some(alike: Alike) -> tuple[Pod, ...]:
        kind = alike.kind
        if alike.guarded or kind.namespace in budgeted:
            return tuple(pod for pod in alike.pods if will_ask(pod))
        # Of pods that have not ended, who made them and whether they go is all that counts.
        fate = (kind.owner.kind if kind.owner is not None else "", alike.deleting)
        comes_back = known.get(fate)
        if comes_back is None:
            comes_back = known[fate] = is_reschedulable(alike.pods[0])
        return alike.pods if comes_back else ()

    return some


def _protects(budget: DisruptionBudget, pod: Pod) -> bool:
    selector = budget.selector
    return selector is not None and selector.matches(pod.labels)


def why_invalid(spec: PodSpec) -> Refusal | None:
    """Return why no node is sought for pods like this, whatever the pools."""
    if spec.needs_devices:
        return Refusal(
            "",
            Constraint.DEVICES,
            "asks for devices through resource claims (DRA), which are not supported yet",
        )
    if spec.node_terms and not any(term.expressions or term.fields for term in spec.node_terms):
        return _invalid("has a required node affinity of empty terms, which match no node")
    if any(term.fields for term in spec.node_terms):
        return _invalid("uses matchFields in its node affinity; only DaemonSets may")
    selector = [
        RequirementSpec(key, Operator.IN, (value,)) for key, value in spec.node_selector.items()
    ]
    for one in [*selector, *(e for term in spec.node_terms for e in term.expressions)]:
        problem = _problem(one)
        if problem:
            return _invalid(problem)
    if _refuses_all_pools(spec):
        return _invalid(f"asks for nodes of no NodePool ({label_keys.NODEPOOL} DoesNotExist)")
    return None


def without_empty_terms(spec: PodSpec) -> PodSpec:
    """Leave out node-affinity terms that match nothing, as Kubernetes reads them."""
    if all(term.expressions for term in spec.node_terms):
        return spec
    return replace(spec, node_terms=tuple(t for t in spec.node_terms if t.expressions))


def _refuses_all_pools(spec: PodSpec) -> bool:
    heaviest = max(spec.preferred_node_terms, key=lambda one: one.weight, default=None)
    terms = [*spec.node_terms[:1], *([heaviest.term] if heaviest else [])]
    return any(
        one.key == label_keys.NODEPOOL and one.operator is Operator.DOES_NOT_EXIST
        for term in terms
        for one in term.expressions
    )


def _problem(one: RequirementSpec) -> str:
    key = label_keys.stable_key(one.key)
    if label_keys.is_restricted(key):
        meant = label_keys.similar_key(one.key)
        hint = f"; did you mean {meant!r}?" if meant else ""
        return f"label {one.key!r} may not be asked for: it is set by the system itself{hint}"
    if one.operator is Operator.IN and not one.values:
        return f"{one.key} In has no values"
    if key == label_keys.CAPACITY_TYPE and one.operator is Operator.IN:
        if not set(one.values) & set(label_keys.CAPACITY_TYPES):
            known = ", ".join(label_keys.CAPACITY_TYPES)
            return f"{one.values[0]!r} is no capacity type; there are {known}"
    if one.operator in NUMERIC and not (len(one.values) == 1 and one.values[0].isdigit()):
        return f"{one.key} {one.operator} needs one whole number"
    return ""


def _invalid(message: str) -> Refusal:
    return Refusal("", Constraint.INVALID, message)


def namespaces_of(
    own: str,
    listed: tuple[str, ...],
    selector: LabelSelector | None,
    known: Mapping[str, Mapping[str, str]],
) -> frozenset[str] | None:
    """Return the namespaces a pod term looks at; None means all of them."""
    if selector is None:
        return frozenset(listed) if listed else frozenset({own})
    if not selector.match_labels and not selector.expressions:
        return None
    return frozenset(listed) | {name for name, its in known.items() if selector.matches(its)}
