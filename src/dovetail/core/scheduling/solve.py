"""Which nodes would these pods get? The one entry to scheduling.

wanting pods → classes → problem (compiled) → placer, class by class → answer
"""

from msgspec.structs import replace

from dovetail.core.scheduling.answer import Answer
from dovetail.core.scheduling.classes import PodClass, classify, selector_keys
from dovetail.core.scheduling.defaults import DefaultSpreads
from dovetail.core.scheduling.demand import wanting, why_invalid, without_empty_terms
from dovetail.core.scheduling.placing import Placer
from dovetail.core.scheduling.problem import Problem, share_of_total, usable_pools
from dovetail.core.scheduling.refusals import Explainer
from dovetail.core.scheduling.topology import Kind
from dovetail.core.scheduling.volumes import Volumes
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

    sound, unplaced = _sort_out(classes, snapshot, settings)
    moving = frozenset(pod.key for pod in pods if pod.node_name)
    problem = Problem(snapshot, settings, sound, moving)
    placer = _place_all(problem, defer=True)
    if placer.broke_a_promise:
        # Limits cut short what was bought last, and zones are out of balance:
        # once more, with every pod counted only when it has its node.
        for one in sound:
            one.taken = 0
        problem = Problem(snapshot, settings, sound, moving)
        placer = _place_all(problem, defer=False)

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


def _sort_out(
    classes: list[PodClass], snapshot: ClusterSnapshot, settings: SchedulingSettings
) -> tuple[list[PodClass], list[Unplaced]]:
    """Set aside the pods that no node can help."""
    volumes = Volumes(snapshot, settings)
    sound, unplaced = [], []
    for one in classes:
        problem = why_invalid(one.spec)
        if problem is None:
            found = volumes.of(one.namespace, one.spec)
            problem = found if isinstance(found, Refusal) else None
        if problem is None:
            one.spec = without_empty_terms(one.spec)
            sound.append(one)
        else:
            unplaced += [Unplaced(pod, (problem,)) for pod in one.pods]
    return sound, unplaced


def _place_all(problem: Problem, *, defer: bool) -> Placer:
    """Place classes in order, and again while that gets anybody further.

    A pod may wait for another (affinity, a skew to be lifted), so who found no
    place is asked again after everybody else had a turn.
    """
    placer = Placer(problem, defer=defer)
    waiting = _in_order(placer, problem)
    alone = [one for one in waiting if _is_alone(placer, one)]
    for one in alone:
        placer.place(one)
    tied = [one for one in waiting if one.waiting and not placer.want(one, 0).free]
    problem.packer.expect(problem.load_of(tied))
    progress = True
    while waiting and progress:
        progress = False
        for one in waiting:
            progress |= placer.place(one) > 0
        placer.open_fleets()
        waiting = [one for one in waiting if one.waiting]
    return placer


def _is_alone(placer: Placer, one: PodClass) -> bool:
    """Tell whether pods of a class keep each other off their nodes."""
    return any(h.own and h.rule.kind is Kind.ANTI for h in placer.want(one, 0).host_rules)


def _in_order(placer: Placer, problem: Problem) -> list[PodClass]:
    """Sort: who fixes the number of nodes first, then the largest, the free late.

    Free classes come late because they can use what others leave; last come
    those that seek the company of others, who must be somewhere by then.
    """
    shares = share_of_total(problem)
    cheapest = problem.settings.packing is Packing.CHEAPEST

    def rank(one: PodClass) -> tuple[bool, bool, bool, float, int]:
        want = placer.want(one, 0)
        alone = _is_alone(placer, one)
        bound = 0 if want.host_rules else 1 if want.keys or want.host_counters else 2
        follows = problem.follows_others(want.ties)
        return (follows, cheapest and want.free, not alone, -shares[id(one)], bound)

    return sorted(problem.classes, key=rank)
