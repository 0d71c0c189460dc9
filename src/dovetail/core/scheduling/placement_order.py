"""Placement order: which classes come first, and when to try again.

Classes are placed one after the other, and again while pods get placed. NodePool
limits go to the classes that fit the fewest NodePools.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from dovetail.core.scheduling.placer import Placer
from dovetail.core.scheduling.pods.equivalence import PodClass
from dovetail.core.scheduling.pods.pending import drop_empty_terms, find_invalid_spec
from dovetail.core.scheduling.pods.volumes import VolumeResolver
from dovetail.core.scheduling.problem import CompiledPools, Problem, request_shares
from dovetail.core.scheduling.work import WorkCounter
from dovetail.model.plan import UnschedulablePod, UnschedulableReason
from dovetail.model.settings import Packing, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot

EarlyGroups = Callable[[Placer], list[list[PodClass]]]
"""Returns the groups of classes to place before all others, in this order."""


def split_invalid(
    classes: list[PodClass], snapshot: ClusterSnapshot, settings: SchedulingSettings
) -> tuple[list[PodClass], list[UnschedulablePod]]:
    """Split classes into valid ones and unschedulable pods, whatever the NodePools."""
    volumes = VolumeResolver(snapshot, settings)
    valid, unschedulable = [], []
    for pod_class in classes:
        reason = find_invalid_spec(pod_class.spec)
        if reason is None:
            resolved = volumes.resolve(pod_class.namespace, pod_class.spec)
            reason = resolved if isinstance(resolved, UnschedulableReason) else None
        if reason is None:
            pod_class.spec = drop_empty_terms(pod_class.spec)
            valid.append(pod_class)
        else:
            unschedulable += [UnschedulablePod(pod, (reason,)) for pod in pod_class.pods]
    return valid, unschedulable


def place_pods(
    snapshot: ClusterSnapshot,
    settings: SchedulingSettings,
    classes: Sequence[PodClass],
    moving: frozenset[str],
    work: WorkCounter | None = None,
    pools: CompiledPools | None = None,
) -> Placer:
    """Place the classes; in another order if NodePool limits leave pods unplaced.

    Limits go first to the classes that fit the fewest NodePools, then to those that the
    first order left out. The usual order is the last resort, so that no pod stays
    unplaced only because of this rule.
    """
    work = work or WorkCounter()
    pools = pools or CompiledPools(snapshot, settings, classes)

    def attempt(early: EarlyGroups) -> tuple[Placer, list[int]]:
        placer = place_in_order(snapshot, settings, classes, moving, early, work, pools)
        return placer, [pod_class.placed for pod_class in classes]

    best, placed = attempt(_group_by_pool_count)
    pods = sum(len(pod_class.pods) for pod_class in classes)
    orders: list[EarlyGroups] = []
    displaced = {id(pod_class) for pod_class in _find_displaced(best)} if sum(placed) < pods else set()
    if displaced:
        orders.append(lambda placer: _put_first(placer, displaced))
    if _group_by_pool_count(best):
        orders.append(lambda _: [])
    for early in orders:
        if sum(placed) == pods or work.should_stop():
            break
        other, other_placed = attempt(early)
        if sum(other_placed) > sum(placed) and not other.postponed:
            best, placed = other, other_placed
    for pod_class, count in zip(classes, placed, strict=True):
        pod_class.placed = count
    return best


def _put_first(placer: Placer, chosen: set[int]) -> list[list[PodClass]]:
    """Return the groups of ``_group_by_pool_count``, after one of the chosen classes (ids)."""
    first = [pod_class for pod_class in placer.problem.classes if id(pod_class) in chosen]
    return [first, *_group_by_pool_count(placer)]


def place_in_order(
    snapshot: ClusterSnapshot,
    settings: SchedulingSettings,
    classes: Sequence[PodClass],
    moving: frozenset[str],
    early: EarlyGroups,
    work: WorkCounter | None = None,
    pools: CompiledPools | None = None,
) -> Placer:
    """Place the classes from scratch; ``early`` returns those to place before others."""
    pools = pools or CompiledPools(snapshot, settings, classes)
    for defer in (True, False):
        for pod_class in classes:
            pod_class.placed = 0
        problem = Problem(snapshot, settings, classes, moving, work=work, pools=pools)
        placer = Placer(problem, defer=defer)
        place_all(placer, early(placer))
        if not placer.has_shortfall or placer.problem.work.should_stop():
            break
        # NodePool limits cut the fleet short after its pods had been counted in
        # their domains, so skews are wrong. Start again without deferring pods
        # with topology keys: each pod is counted once it has its node.
    return placer


def place_all(placer: Placer, early: Sequence[Sequence[PodClass]] = ()) -> None:
    """Place classes in order, and repeat while that makes progress.

    A pod may wait for another (affinity, or a skew that another pod reduces). So
    unplaced classes are tried again after all others. The groups of classes in
    ``early`` are placed before all others, group by group, each with nodes of its own.
    """
    problem = placer.problem
    shares = request_shares(problem)
    order = _placement_order(placer, shares)
    for group in early:
        in_group = {id(pod_class) for pod_class in group}
        for pod_class in order:
            if id(pod_class) in in_group:
                _place_in_time(placer, pod_class)
        placer.open_fleets()
    # Pods with self anti-affinity fix the number of nodes. They come first; then the
    # open claims are sized for the classes that will join them.
    apart = [pod_class for pod_class in order if placer.compile_class(pod_class, 0).has_self_anti_affinity]
    for pod_class in apart:
        _place_in_time(placer, pod_class)
    order = _placement_order(placer, shares, by_size=True) if apart else order
    joining = [
        pod_class
        for pod_class in order
        if pod_class.unplaced
        and (not placer.compile_class(pod_class, 0).is_independent or _follows_in_domain(placer, pod_class))
    ]
    problem.packer.presize_claims(problem.total_requests(joining))
    progress = True
    while progress:
        before = _count_unplaced(order) + placer.deferred.count_pods()
        for pod_class in order:
            if pod_class.unplaced:
                _place_in_time(placer, pod_class)
        placer.open_fleets()
        progress = 0 < _count_unplaced(order) < before and not problem.work.should_stop()


def _place_in_time(placer: Placer, pod_class: PodClass) -> None:
    """Place a class, unless the time of the pass is used up before its first attempt."""
    if placer.problem.work.should_stop():
        placer.postpone(pod_class)
    else:
        placer.place(pod_class)


def _count_unplaced(classes: Iterable[PodClass]) -> int:
    """Return the number of pods without a node."""
    return sum(pod_class.unplaced for pod_class in classes)


def _group_by_pool_count(placer: Placer) -> list[list[PodClass]]:
    """Return the classes to place before others because of NodePool limits.

    A class that fits few NodePools needs their limits more than one that fits many.
    So classes are grouped by the number of NodePools they fit, fewest first. The rest
    can wait: those that fit most NodePools, or one without limits.
    """
    if all(headroom.is_unlimited for headroom in placer.problem.placement.limit_headrooms):
        return []
    groups: dict[int, list[PodClass]] = {}
    for pod_class in placer.problem.classes:
        groups.setdefault(_count_limited_pools(placer, pod_class), []).append(pod_class)
    return [groups[number] for number in sorted(groups)][:-1]


def _count_limited_pools(placer: Placer, pod_class: PodClass) -> int:
    """Return how many NodePools a class fits; more than all, if one has no limits or none fits."""
    headrooms = placer.problem.placement.limit_headrooms
    pools = placer.fitting_pools(pod_class)
    has_unlimited = any(headrooms[pool].is_unlimited for pool in pools)
    return len(headrooms) + 1 if has_unlimited or not pools else len(pools)


def _find_displaced(placer: Placer) -> list[PodClass]:
    """Return the unplaced classes whose NodePools hold pods that fit elsewhere.

    Elsewhere: in a NodePool that they do not fit themselves and whose limits have room.
    Placed before all others, they may get a node.
    """
    headrooms = placer.problem.placement.limit_headrooms
    classes = placer.problem.classes
    if all(headroom.is_unlimited for headroom in headrooms):
        return []
    with_room = {pool for pool, headroom in enumerate(headrooms) if headroom.allowed_rows().any()}
    choices = {placer.fitting_pools(pod_class) for pod_class in classes if pod_class.placed}
    return [
        pod_class
        for pod_class in classes
        if pod_class.unplaced
        and (own := placer.fitting_pools(pod_class))
        and any(own & pools and (pools - own) & with_room for pools in choices)
    ]


def _placement_order(placer: Placer, shares: Mapping[int, float], *, by_size: bool = False) -> list[PodClass]:
    """Return the classes in placement order, by the shares of ``request_shares``.

    1. Retried pods last: they must not take the time of others.
    2. Classes with affinity to other classes last: the others must have nodes.
    3. Independent classes late (cheapest packing): they use the room others leave.
    4. Self anti-affinity first: it fixes the number of nodes.
    5. Largest share of all requests first, as in best-fit decreasing.
    6. Of equal requests: hostname rules, other topology, none.

    With ``by_size``, 2 and 3 are not for classes that follow others into zones or other
    large domains. They are tried in the order of their size, so that large pods do not
    come after small ones, and once more in the end.
    Sorting is stable; ``problem.classes`` is sorted by pod name.
    """
    problem = placer.problem
    cheapest = problem.settings.packing is Packing.CHEAPEST

    retried = problem.work.retried

    def rank(pod_class: PodClass) -> tuple[bool, bool, bool, bool, float, int]:
        compiled = placer.compile_class(pod_class, 0)
        has_topology = compiled.topology_keys or compiled.hostname_groups
        constrained = 0 if compiled.hostname_rules else 1 if has_topology else 2
        is_last = bool(problem.followed_groups(compiled.topology))
        is_late, share = cheapest and compiled.is_independent, shares[id(pod_class)]
        if by_size and _follows_in_domain(placer, pod_class):
            is_last = is_late = False
        is_retried = bool(retried) and all(pod.uid in retried for pod in pod_class.pods)
        return (is_retried, is_last, is_late, not compiled.has_self_anti_affinity, -share, constrained)

    return sorted(problem.classes, key=rank)


def _follows_in_domain(placer: Placer, pod_class: PodClass) -> bool:
    """Return True if a class follows other classes, but into no hostname domain.

    On hostname all pods of the others must have nodes before.
    """
    groups = placer.problem.followed_groups(placer.compile_class(pod_class, 0).topology)
    return bool(groups) and not any(group.is_hostname for group in groups)
