"""Solver: place pending pods on existing nodes and on new NodeClaims.

The solver works on *classes* of identical pods, not on single pods, so its cost
grows with the number of pod templates::

    pending pods
         |  pods/equivalence.py: pods that are identical to a scheduler
         v
    PodClass ---- pods/relaxation.py: specs with fewer and fewer preferences
         |  problem.py: one spec of a class, compiled to arrays
         v
    CompiledClass --+-- requests          [resources] vector of one pod
                    +-- NodeConstraint    node labels and taints it accepts
                    +-- ClassTopology     spread, affinity, anti-affinity
                    +-- host ports, volumes
         |  placer.py: divide the class over topology domains (domains.py)
         v
    (CompiledClass, DomainTuple, number of pods)
         |  placement/packer.py, in this order:
         |    1. existing nodes
         |    2. open claims, type unchanged
         |    3. open claims, upsized to a larger type   (placement/upsize.py)
         |    4. new claims                              (placement/new_claims.py)
         |  deferred.py: independent classes skip 3 and 4 and wait for
         |    5. one fleet search for all of them        (fleet/)
         v
    PlacementState --> plan_builder.py --> Plan
                   --> unschedulable.py: reasons for the pods without a node

Glossary:

- **equivalence class** (``PodClass``): pods with equal specs and equal labels, as
  far as any selector matches on them.
- **compiled class** (``CompiledClass``): one relaxed spec of a class, as arrays.
- **node constraint** (``NodeConstraint``): requirements and tolerations of a
  compiled class, interned as an integer.
- **claim** (new node): a NodeClaim that this plan opens. Its *nominal* type is the
  cheapest type that holds its pods; the plan lists all other types that do.
- **claim state** (``ClaimState``): NodePool and requirements that a claim has been
  narrowed to, interned as an integer. ``INFEASIBLE`` (0): no type is left. Adding
  a class to a claim is a look-up (claim state, node constraint) -> claim state.
- **domain**: a value of a topology key, such as a zone. A **domain tuple** has one
  domain per topology key of a class.
- **topology group** (``TopologyGroup``): counter of matching pods per domain.
  A **topology rule** is a constraint on such a counter.
- **placement state** (``PlacementState``): everything that changes while pods are
  placed: nodes and claims, limits, reservations, and the log of placements.
- **price index** (``PriceIndex``): instance types of a claim state by price.
- **limit headroom** (``LimitHeadroom``): remaining ``spec.limits`` of a NodePool.

Ties are always broken by a stable order, so equal snapshots give equal plans:

================================  =============================================
decision                          order, and the tie-break at its end
================================  =============================================
NodePools                         weight descending, then name descending, as in
                                  Karpenter (``sort_by_weight``)
classes                           ``placement_order._placement_order``; then the
                                  name and namespace of the first pod
pods of a class                   name, namespace (``pods/equivalence.py``)
existing nodes                    initialized first, then name
                                  (``problem.initialized_first``)
domains                           fewest pods; then price of the cheapest new
                                  node; then name (``placer.domain_tuples``)
open claims                       by index, from ``PlacementState.cursor`` on
upsized claims                    extra price per pod, then index
new claim                         price per pod, then more pods, then row;
                                  pools of one weight: price, then pool order
rows of a table                   instance type name
types of a claim state            price, then row (``rows_by_price``)
offering of a planned node        price, zone, capacity type
fleets of equal cost              the later search result (``fleet/search.py``)
plans of nearly equal cost        fewer nodes (``plan_cost.py``)
================================  =============================================
"""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from dovetail.core.scheduling.placement_order import place_pods, split_invalid
from dovetail.core.scheduling.plan_builder import PlanBuilder
from dovetail.core.scheduling.plan_cost import is_better
from dovetail.core.scheduling.pods.default_spread import DefaultSpreads
from dovetail.core.scheduling.pods.equivalence import PodClass, classify, selector_keys
from dovetail.core.scheduling.pods.pending import find_pods_to_schedule
from dovetail.core.scheduling.problem import CompiledPools, usable_nodepools
from dovetail.core.scheduling.snapshot_update import add_plan, merge_plans
from dovetail.core.scheduling.unschedulable import UnschedulableExplainer
from dovetail.core.scheduling.work import (
    NOT_RETRIED,
    ShouldStop,
    WorkCounter,
    WorkLimitExceededError,
    complexity_reason,
    is_complex,
    never_stop,
)
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import Constraint, Plan, UnschedulablePod, UnschedulableReason
from dovetail.model.settings import Packing, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot

_FEW_NODES = 64
"""Plans of up to this many new nodes are also tried with ``Packing.FEWEST``."""
_STEPS_PER_NODEPOOL = 100
"""Steps to compile a NodePool, once more for each isolated class."""
_NO_NODEPOOL = UnschedulableReason(
    "", Constraint.NO_NODEPOOL, "there is no NodePool that could launch a node for it"
)


def solve(
    snapshot: ClusterSnapshot,
    settings: SchedulingSettings | None = None,
    should_stop: ShouldStop = never_stop,
    retried: Mapping[str, int] = NOT_RETRIED,
) -> Plan:
    """Place every pod that needs a node, on existing nodes or new NodeClaims.

    Pure and deterministic: equal snapshots give equal plans. Pods without a
    node are returned with a reason per NodePool.

    Pods with complex specs are isolated: each class of them is planned on its own after all
    others. With ``should_stop``, the plan may be partial: no further class is considered once
    it returns True, and no further isolated class after ``isolated_steps``. The rest is
    ``postponed``. ``retried`` has the UIDs of pods to consider after all others, with the
    number of the pass that found no node for them.
    """
    settings = settings or SchedulingSettings()
    pods = find_pods_to_schedule(snapshot)
    classes = _classify(snapshot, settings, pods)
    work = WorkCounter(should_stop, retried=retried, class_steps=settings.class_steps)
    # Pods of a class differ in their own specs only by spreads that the settings add to some.
    if not any(is_complex(pod_class.spec) for pod_class in classes):
        return _solve_together(snapshot, settings, classes, work)
    isolated = [pod for pod in pods if is_complex(pod.spec)]
    isolated_keys = {pod.key for pod in isolated}
    ordinary = [pod for pod in pods if pod.key not in isolated_keys]
    plan = _solve_together(snapshot, settings, _classify(snapshot, settings, ordinary), work)
    work = WorkCounter(should_stop, class_steps=settings.class_steps)
    is_limited = should_stop is not never_stop
    for pod_class in sorted(classify(isolated), key=lambda each: _latest_pass(each, retried)):
        if (is_limited and work.steps >= settings.isolated_steps) or should_stop():
            plan = replace(plan, postponed=(*plan.postponed, *pod_class.pods))
        else:
            work.charge(_STEPS_PER_NODEPOOL * len(snapshot.nodepools) + len(snapshot.nodes))
            alone = _solve_alone(add_plan(snapshot, plan), settings, pod_class.pods, work)
            plan = merge_plans(plan, alone)
    return plan


def _latest_pass(pod_class: PodClass, retried: Mapping[str, int]) -> int:
    """Return the number of the latest pass that considered a class; 0 if there is a new pod."""
    return min(retried.get(pod.uid, 0) for pod in pod_class.pods)


def _solve_alone(
    snapshot: ClusterSnapshot, settings: SchedulingSettings, pods: list[Pod], work: WorkCounter
) -> Plan:
    """Plan one class on its own, within the steps of a class; compiling it counts, too."""
    before = work.steps
    try:
        with work.limit_class():
            batch = _compile(snapshot, settings, _classify(snapshot, settings, pods))
            plan, _ = _plan_once(snapshot, settings, batch, work)
    except WorkLimitExceededError:
        reasons = (complexity_reason(pods[0].spec),)
        plan = Plan(unschedulable=tuple(UnschedulablePod(pod, reasons) for pod in pods))
    return replace(plan, steps=work.steps - before)


def _solve_together(
    snapshot: ClusterSnapshot, settings: SchedulingSettings, classes: list[PodClass], work: WorkCounter
) -> Plan:
    """Plan all pods in one problem; the better of two packings, if there is time."""
    batch = _compile(snapshot, settings, classes)
    plan, claim_states = _plan_once(snapshot, settings, batch, work)
    is_small = claim_states > 1 and len(plan.nodes) <= _FEW_NODES
    if settings.packing is Packing.CHEAPEST and is_small and not work.should_stop():
        # The fleet search is weakest for few nodes in several claim states, and
        # the other packing is quick to try.
        fewest = replace(settings, packing=Packing.FEWEST)
        alternative, _ = _plan_once(
            snapshot, fewest, batch, WorkCounter(work.should_stop, class_steps=work.class_steps)
        )
        if not alternative.postponed and _is_better(alternative, plan, settings.fewer_nodes_tolerance):
            return alternative
    return plan


def _is_better(plan: Plan, other: Plan, tolerance: float) -> bool:
    """Return True if ``plan`` places more pods than ``other``, or as many for less."""
    if len(plan.unschedulable) != len(other.unschedulable):
        return len(plan.unschedulable) < len(other.unschedulable)
    return is_better(plan.cost, len(plan.nodes), other.cost, len(other.nodes), tolerance)


def _classify(snapshot: ClusterSnapshot, settings: SchedulingSettings, pods: list[Pod]) -> list[PodClass]:
    spreads = settings.default_spreads
    spec_of = DefaultSpreads(snapshot, spreads).spec_of if spreads else None
    running_specs = {pod.spec for node in snapshot.nodes for pod in node.pods if pod.spec.anti_affinity}
    return classify(pods, selector_keys(running_specs), spec_of)


class _Batch(NamedTuple):
    """Classes to plan together, by one packing or another."""

    classes: list[PodClass]
    invalid: list[UnschedulablePod]
    moving: frozenset[str]
    """Keys of pods that leave a deleting node."""
    pools: CompiledPools


def _compile(snapshot: ClusterSnapshot, settings: SchedulingSettings, classes: list[PodClass]) -> _Batch:
    moving = frozenset(pod.key for pod_class in classes for pod in pod_class.pods if pod.node_name)
    valid, invalid = split_invalid(classes, snapshot, settings)
    return _Batch(valid, invalid, moving, CompiledPools(snapshot, settings, valid))


def _plan_once(
    snapshot: ClusterSnapshot, settings: SchedulingSettings, batch: _Batch, work: WorkCounter
) -> tuple[Plan, int]:
    """Return the plan and the number of distinct claim states in it."""
    placer = place_pods(snapshot, settings, batch.classes, batch.moving, work, batch.pools)
    problem = placer.problem
    unschedulable = list(batch.invalid)

    explainer = UnschedulableExplainer(placer)
    has_nodepool = bool(usable_nodepools(snapshot))
    postponed: list[Pod] = []
    for pod_class in batch.classes:
        unplaced = pod_class.pods[pod_class.placed :]
        if unplaced and id(pod_class) in placer.postponed:
            postponed += unplaced
        elif unplaced:
            reasons = explainer.explain(pod_class)
            if not has_nodepool:
                reasons = (_NO_NODEPOOL, *reasons)
            unschedulable += [UnschedulablePod(pod, reasons) for pod in unplaced]
    builder = PlanBuilder(problem)
    nodes, existing = builder.build()
    unschedulable += builder.dropped
    unschedulable.sort(key=lambda entry: (entry.pod.namespace, entry.pod.name))
    plan = Plan(nodes, existing, tuple(unschedulable), tuple(postponed), work.steps)
    return plan, problem.nodes.count_claim_states()
