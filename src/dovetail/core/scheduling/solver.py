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
================================  =============================================
"""

from msgspec.structs import replace

from dovetail.core.scheduling.placement_order import place_pods, split_invalid
from dovetail.core.scheduling.plan_builder import PlanBuilder
from dovetail.core.scheduling.pods.default_spread import DefaultSpreads
from dovetail.core.scheduling.pods.equivalence import classify, selector_keys
from dovetail.core.scheduling.pods.pending import find_pods_to_schedule
from dovetail.core.scheduling.problem import usable_nodepools
from dovetail.core.scheduling.unschedulable import UnschedulableExplainer
from dovetail.model.plan import Constraint, Plan, UnschedulablePod, UnschedulableReason
from dovetail.model.settings import Packing, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot

_FEW_NODES = 64
"""Plans of up to this many new nodes are also tried with ``Packing.FEWEST``."""
_EPSILON = 1e-9
"""Relative price difference below which two plans cost the same."""
_NO_NODEPOOL = UnschedulableReason(
    "", Constraint.NO_NODEPOOL, "there is no NodePool that could launch a node for it"
)


def solve(snapshot: ClusterSnapshot, settings: SchedulingSettings | None = None) -> Plan:
    """Place every pod that needs a node, on existing nodes or new NodeClaims.

    Pure and deterministic: equal snapshots give equal plans. Pods without a
    node are returned with a reason per NodePool.
    """
    settings = settings or SchedulingSettings()
    plan, claim_states = _plan_once(snapshot, settings)
    is_small = claim_states > 1 and len(plan.nodes) <= _FEW_NODES
    if settings.packing is Packing.CHEAPEST and is_small:
        # The fleet search is weakest for few nodes in several claim states, and
        # the other packing is quick to try.
        alternative, _ = _plan_once(snapshot, replace(settings, packing=Packing.FEWEST))
        if _is_better(alternative, plan, settings.node_cost):
            return alternative
    return plan


def _is_better(plan: Plan, other: Plan, node_cost: float) -> bool:
    """Return True if ``plan`` places more pods than ``other``, or as many for less."""
    if len(plan.unschedulable) != len(other.unschedulable):
        return len(plan.unschedulable) < len(other.unschedulable)
    price = plan.price + node_cost * len(plan.nodes)
    other_price = other.price + node_cost * len(other.nodes)
    return price < other_price * (1 - _EPSILON)


def _plan_once(snapshot: ClusterSnapshot, settings: SchedulingSettings) -> tuple[Plan, int]:
    """Return the plan and the number of distinct claim states in it."""
    pods = find_pods_to_schedule(snapshot)
    spreads = settings.default_spreads
    spec_of = DefaultSpreads(snapshot, spreads).spec_of if spreads else None
    running_specs = {pod.spec for node in snapshot.nodes for pod in node.pods if pod.spec.anti_affinity}
    classes = classify(pods, selector_keys(running_specs), spec_of)

    valid, unschedulable = split_invalid(classes, snapshot, settings)
    moving = frozenset(pod.key for pod in pods if pod.node_name)
    placer = place_pods(snapshot, settings, valid, moving)
    problem = placer.problem

    explainer = UnschedulableExplainer(placer)
    has_nodepool = bool(usable_nodepools(snapshot))
    for pod_class in valid:
        if pod_class.unplaced:
            reasons = explainer.explain(pod_class)
            if not has_nodepool:
                reasons = (_NO_NODEPOOL, *reasons)
            unschedulable += [UnschedulablePod(pod, reasons) for pod in pod_class.pods[pod_class.placed :]]
    builder = PlanBuilder(problem)
    nodes, existing = builder.build()
    unschedulable += builder.dropped
    unschedulable.sort(key=lambda entry: (entry.pod.namespace, entry.pod.name))
    return Plan(nodes, existing, tuple(unschedulable)), problem.nodes.count_claim_states()
