"""Pods of one node that differ in nothing that a plan looks at but their names."""

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Owner, Pod, PodSpec


class PodKind(msgspec.Struct, frozen=True, cache_hash=True):
    """What replicas have in common."""

    namespace: str
    labels: FrozenDict[str, str]
    spec: PodSpec
    owner: Owner | None


class Alike(msgspec.Struct, frozen=True):
    """Pods of a kind that share their fate, too; none of them has ended."""

    kind: PodKind
    deleting: bool
    guarded: bool
    """They say something about being disrupted themselves."""
    pods: tuple[Pod, ...]


def kind_of(pod: Pod) -> PodKind:
    """Return what a pod shares with its replicas: the same object for all of them."""
    return _kind(pod.namespace, pod.labels, pod.spec, pod.owner)


_kind = lru_cache(maxsize=2**16)(PodKind)


def sort_alike(pods: Iterable[Pod]) -> tuple[Alike, ...]:
    """Return the pods that have not ended, those together that are alike, in their order."""
    found: dict[tuple[PodKind, bool, bool], list[Pod]] = {}
    for pod in pods:
        if not pod.terminal:
            guarded = label_keys.DO_NOT_DISRUPT in pod.annotations
            found.setdefault((kind_of(pod), pod.deleting, guarded), []).append(pod)
    return tuple(
        Alike(kind, deleting, guarded, tuple(some))
        for (kind, deleting, guarded), some in found.items()
    )
