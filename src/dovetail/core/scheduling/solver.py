"""Which nodes would these pods get? The one entry to scheduling.

wanting pods → classes → problem (compiled) → placer, class by class → answer
"""

from msgspec.structs import replace

from dovetail.core.scheduling.placement_order import place_all, sort_out
from dovetail.core.scheduling.placer import Placer
from dovetail.core.scheduling.plan_builder import Answer
from dovetail.core.scheduling.pods.default_spread import DefaultSpreads
from dovetail.core.scheduling.pods.equivalence import classify, selector_keys
from dovetail.core.scheduling.pods.pending import wanting
from dovetail.core.scheduling.problem import Problem, usable_pools
from dovetail.core.scheduling.unschedulable import Explainer
from dovetail.model.plan import Constraint, Plan, Refusal, Unplaced
from dovetail.model.settings import Packing, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot

_FEW_NODES = 64
_HARDLY = 1e-9
_CUT_SHORT = "cut to the longest list of types allowed, its claim would break minValues"
_NO_POOL = Refusal("", Constraint.NO_POOL, "there is no NodePool that could buy a node for it")


def solve(snapshot: ClusterSnapshot, settings: SchedulingSettings | None = None) -> Plan:
    """Place every pod that wants a node, on nodes that exist or are to be bought.

    Pure and deterministic: equal snapshots give equal plans. Pods that find no
    place come back with the reason, pool by pool.
    """
    settings = settings or SchedulingSettings()
    plan, kinds = _plan_once(snapshot, settings)
    few = kinds > 1 and len(plan.nodes) <= _FEW_NODES
    if settings.packing is Packing.CHEAPEST and few:
        # Few nodes of different kinds are where the fleet's reckoning is weakest,
        # and the other way is quick to try.
        other, _ = _plan_once(snapshot, replace(settings, packing=Packing.FEWEST))
        if _is_cheaper(other, plan, settings.node_cost):
            return other
    return plan


def _is_cheaper(one: Plan, other: Plan, node_cost: float) -> bool:
    dearest = other.price + node_cost * len(other.nodes)
    price = one.price + node_cost * len(one.nodes)
    return len(one.unplaced) <= len(other.unplaced) and price < dearest * (1 - _HARDLY)


def _plan_once(snapshot: ClusterSnapshot, settings: SchedulingSettings) -> tuple[Plan, int]:
    """Return the plan, and how many kinds of claims (by their requirements) it opens."""
    pods = wanting(snapshot)
    spreads = settings.default_spreads
    spec_of = DefaultSpreads(snapshot, spreads).spec_of if spreads else None
    running = {pod.spec for node in snapshot.nodes for pod in node.pods if pod.spec.anti_affinity}
    classes = classify(pods, selector_keys(running), spec_of)

    sound, unplaced = sort_out(classes, snapshot, settings)
    moving = frozenset(pod.key for pod in pods if pod.node_name)
    problem = Problem(snapshot, settings, sound, moving)
    placer = Placer(problem, defer=True)
    place_all(placer)
    if placer.broke_a_promise:
        # Limits cut short what was bought last, and zones are out of balance:
        # once more, with every pod counted only when it has its node.
        for one in sound:
            one.taken = 0
        problem = Problem(snapshot, settings, sound, moving)
        placer = Placer(problem, defer=False)
        place_all(placer)

    explainer = Explainer(placer)
    nobody = not usable_pools(snapshot)
    for one in sound:
        if one.waiting:
            refusals = explainer.why(one)
            if nobody:
                refusals = (_NO_POOL, *refusals)
            unplaced += [Unplaced(pod, refusals) for pod in one.pods[one.taken :]]
    answer = Answer(problem)
    nodes, existing = answer.write()
    for pool, pods_left in answer.dropped:
        refusal = Refusal(pool, Constraint.MIN_VALUES, _CUT_SHORT)
        unplaced += [Unplaced(pod, (refusal,)) for pod in pods_left]
    unplaced.sort(key=lambda one: (one.pod.namespace, one.pod.name))
    return Plan(nodes, existing, tuple(unplaced)), problem.hosts.kinds_of_claims()
