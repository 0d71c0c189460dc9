"""Whose turn it is: classes are placed in order, and again while that helps."""

from dovetail.core.scheduling.constraints.topology import Kind
from dovetail.core.scheduling.placer import Placer
from dovetail.core.scheduling.pods.equivalence import PodClass
from dovetail.core.scheduling.pods.pending import why_invalid, without_empty_terms
from dovetail.core.scheduling.pods.volumes import Volumes
from dovetail.core.scheduling.problem import share_of_total
from dovetail.model.plan import Refusal, Unplaced
from dovetail.model.settings import Packing, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot


def sort_out(
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


def place_all(placer: Placer) -> None:
    """Place classes in order, and again while that gets anybody further.

    A pod may wait for another (affinity, a skew to be lifted), so who found no
    place is asked again after everybody else had a turn.
    """
    problem = placer.problem
    waiting = _in_order(placer)
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


def _is_alone(placer: Placer, one: PodClass) -> bool:
    """Tell whether pods of a class keep each other off their nodes."""
    return any(h.own and h.rule.kind is Kind.ANTI for h in placer.want(one, 0).host_rules)


def _in_order(placer: Placer) -> list[PodClass]:
    """Sort: who fixes the number of nodes first, then the largest, the free late.

    Free classes come late because they can use what others leave; last come
    those that seek the company of others, who must be somewhere by then.
    """
    problem = placer.problem
    shares = share_of_total(problem)
    cheapest = problem.settings.packing is Packing.CHEAPEST

    def rank(one: PodClass) -> tuple[bool, bool, bool, float, int]:
        want = placer.want(one, 0)
        alone = _is_alone(placer, one)
        bound = 0 if want.host_rules else 1 if want.keys or want.host_counters else 2
        follows = problem.follows_others(want.ties)
        return (follows, cheapest and want.free, not alone, -shares[id(one)], bound)

    return sorted(problem.classes, key=rank)
