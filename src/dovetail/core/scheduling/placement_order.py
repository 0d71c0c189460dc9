"""Placement order: classes one after the other, repeated while pods get placed."""

from dovetail.core.scheduling.constraints.topology import RuleKind
from dovetail.core.scheduling.placer import Placer
from dovetail.core.scheduling.pods.equivalence import PodClass
from dovetail.core.scheduling.pods.pending import drop_empty_terms, find_invalid_spec
from dovetail.core.scheduling.pods.volumes import VolumeResolver
from dovetail.core.scheduling.problem import request_shares
from dovetail.model.plan import UnschedulablePod, UnschedulableReason
from dovetail.model.settings import Packing, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot


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


def place_all(placer: Placer) -> None:
    """Place classes in order, and repeat while that makes progress.

    A pod may wait for another (affinity, or a skew that another pod reduces). So
    unplaced classes are tried again after all others.
    """
    problem = placer.problem
    unplaced_classes = _placement_order(placer)
    # Pods with self anti-affinity fix the number of nodes. They come first; then the
    # open claims are sized for the dependent classes that will join them.
    separated = [pod_class for pod_class in unplaced_classes if _has_self_anti_affinity(placer, pod_class)]
    for pod_class in separated:
        placer.place(pod_class)
    dependent = [
        pod_class
        for pod_class in unplaced_classes
        if pod_class.unplaced and not placer.compile_class(pod_class, 0).is_independent
    ]
    problem.packer.presize_claims(problem.total_requests(dependent))
    progress = True
    while unplaced_classes and progress:
        progress = False
        for pod_class in unplaced_classes:
            progress |= placer.place(pod_class) > 0
        placer.open_fleets()
        unplaced_classes = [pod_class for pod_class in unplaced_classes if pod_class.unplaced]


def _has_self_anti_affinity(placer: Placer, pod_class: PodClass) -> bool:
    """Return True if pods of a class may not share a node with each other."""
    return any(
        own.selects_self and own.rule.kind is RuleKind.ANTI_AFFINITY
        for own in placer.compile_class(pod_class, 0).hostname_rules
    )


def _placement_order(placer: Placer) -> list[PodClass]:
    """Return the classes in placement order.

    1. Classes with affinity to other classes last: the others must have nodes.
    2. Independent classes late (cheapest packing): they use the room others leave.
    3. Self anti-affinity first: it fixes the number of nodes.
    4. Largest share of all requests first, as in best-fit decreasing.
    5. Of equal requests: hostname rules, other topology, none.

    Sorting is stable; ``problem.classes`` is sorted by pod name.
    """
    problem = placer.problem
    shares = request_shares(problem)
    cheapest = problem.settings.packing is Packing.CHEAPEST

    def rank(pod_class: PodClass) -> tuple[bool, bool, bool, float, int]:
        compiled = placer.compile_class(pod_class, 0)
        with_self_anti_affinity = _has_self_anti_affinity(placer, pod_class)
        has_topology = compiled.topology_keys or compiled.hostname_groups
        constrained = 0 if compiled.hostname_rules else 1 if has_topology else 2
        follows_others = problem.follows_other_classes(compiled.topology)
        is_late, share = cheapest and compiled.is_independent, shares[id(pod_class)]
        return (follows_others, is_late, not with_self_anti_affinity, -share, constrained)

    return sorted(problem.classes, key=rank)
