"""Which of a node's promised pods kube-scheduler may be told of at one time."""

from collections.abc import Iterable

from dovetail.model.kube.pod import Pod


def nominable(waiting: Iterable[Pod]) -> list[Pod]:
    """Return pods that may be nominated for one node together, in the given order.

    When kube-scheduler looks whether a pod may go to a node, it takes the others that
    are nominated for it as being there, but not those nominated for other nodes: two pods
    of one spread would each find the other one too many in their zone, for ever. So they
    are named one after the other.
    """
    chosen: list[Pod] = []
    alike: dict[tuple[object, ...], Pod] = {}
    """One of each kind of those chosen: pods of a Deployment count each other alike."""
    for pod in waiting:
        if not any(_spread_apart(pod, one) or _spread_apart(one, pod) for one in alike.values()):
            chosen.append(pod)
            alike.setdefault((pod.namespace, pod.labels, pod.spec.spreads), pod)
    return chosen


def _spread_apart(pod: Pod, other: Pod) -> bool:
    """Tell whether a pod counts another against itself."""
    return pod.namespace == other.namespace and any(
        one.required and one.selector is not None and one.selector.matches(other.labels)
        for one in pod.spec.spreads
    )
