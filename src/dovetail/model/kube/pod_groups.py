"""Groups of equivalent pods: identical to the scheduler except for their names."""

from collections.abc import Iterable
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import OwnerReference, Pod, PodSpec


class EquivalenceKey(msgspec.Struct, frozen=True, cache_hash=True, weakref=True):
    """Fields that make pods identical to the scheduler; equal for all replicas."""

    namespace: str
    labels: FrozenDict[str, str]
    spec: PodSpec
    owner: OwnerReference | None


class PodGroup(msgspec.Struct, frozen=True):
    """Equivalent pods of one node with equal deletion state; none is terminal."""

    key: EquivalenceKey
    deleting: bool
    has_do_not_disrupt: bool
    """True if the pods have a ``karpenter.sh/do-not-disrupt`` annotation."""
    pods: tuple[Pod, ...]


def equivalence_key(pod: Pod) -> EquivalenceKey:
    """Return the equivalence key of a pod; equivalent pods share one object."""
    fields = (pod.namespace, pod.labels, pod.spec, pod.owner)
    key = _keys.get(fields)
    if key is None:
        key = _keys[fields] = EquivalenceKey(*fields)
    return key


_keys: Final[WeakValueDictionary[tuple[object, ...], EquivalenceKey]] = WeakValueDictionary()
"""Keys in use: the specs of deleted pods must not stay in memory."""


def group_pods(pods: Iterable[Pod]) -> tuple[PodGroup, ...]:
    """Group pods that are not terminal by equivalence, in order of first occurrence."""
    groups: dict[tuple[EquivalenceKey, bool, bool], list[Pod]] = {}
    for pod in pods:
        if not pod.is_terminal:
            do_not_disrupt = label_keys.DO_NOT_DISRUPT in pod.annotations
            groups.setdefault((equivalence_key(pod), pod.deleting, do_not_disrupt), []).append(pod)
    return tuple(
        PodGroup(key, deleting, do_not_disrupt, tuple(members))
        for (key, deleting, do_not_disrupt), members in groups.items()
    )
