"""Pod nomination: assigned pods that can be nominated for a node at the same time."""

from collections.abc import Iterable

from dovetail.model.kube.pod import Pod


def select_nominable(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods that can be nominated for one node together, in the given order.

    When kube-scheduler checks a node, it counts other pods nominated for that node as
    running there, but not those nominated for other nodes. Two pods of one topology
    spread would block each other for ever, so they are nominated one after the other.
    """
    selected: list[Pod] = []
    by_key: dict[tuple[object, ...], Pod] = {}
    """One selected pod per equivalence key: replicas of a Deployment count each other equally."""
    for pod in pods:
        if not any(_counts_against(pod, other) or _counts_against(other, pod) for other in by_key.values()):
            selected.append(pod)
            by_key.setdefault((pod.namespace, pod.labels, pod.spec.spreads), pod)
    return selected


def _counts_against(pod: Pod, other: Pod) -> bool:
    """Return True if a required topology spread of a pod counts another pod."""
    return pod.namespace == other.namespace and any(
        spread.required and spread.selector is not None and spread.selector.matches(other.labels)
        for spread in pod.spec.spreads
    )
