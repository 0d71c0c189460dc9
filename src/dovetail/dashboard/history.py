"""Bounded history of a cluster's totals, for the timeline."""

from collections.abc import Iterator
from typing import Final

import msgspec

from dovetail.view.document import NodeState, NodeView, View

MAX_SAMPLES: Final = 2048
"""Half an hour of a change every second; of a longer time with fewer points per hour."""
_LEAVING: Final = frozenset({NodeState.DRAINING, NodeState.TERMINATING})
_FINISHED: Final = frozenset({"Succeeded", "Failed"})


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Totals at one instant."""

    at: int
    """Milliseconds since 1970."""
    price: float
    """Per hour."""
    nodes: int
    pending: int
    evictions: int = 0
    """Since the sample before."""

    def has_same_levels(self, other: "Sample") -> bool:
        """Return whether nothing happened between two samples."""
        return (
            (self.price, self.nodes, self.pending) == (other.price, other.nodes, other.pending)
            and not self.evictions
            and not other.evictions
        )


class HistoryChange(msgspec.Struct, frozen=True, kw_only=True):
    """A new sample; it may take the place of the last one."""

    sample: Sample
    replaces_last: bool = False


class History:
    """Samples in the order of time.

    Equal levels take two samples, however long they last. Beyond ``max_samples``, each two are
    merged (levels of the later one, evictions of both): the history gets coarser, not shorter.
    """

    def __init__(self, max_samples: int = MAX_SAMPLES) -> None:
        self._max_samples = max_samples
        self._samples: list[Sample] = []
        self._last: View | None = None
        self._interval = 0
        """Milliseconds between two samples, at least."""

    @property
    def samples(self) -> tuple[Sample, ...]:
        return tuple(self._samples)

    def record(self, view: View) -> HistoryChange | None:
        """Add a document; None if it is not later than the last one."""
        at = round(view.at.timestamp() * 1000)
        if self._samples and at <= self._samples[-1].at:
            return None
        sample = Sample(
            at=at,
            price=view.totals.price_per_hour,
            nodes=view.totals.nodes,
            pending=view.totals.pending_pods,
            evictions=count_evictions(self._last, view) if self._last is not None else 0,
        )
        self._last = view
        before = self._samples[-2:]
        replaces_last = len(before) == 2 and (
            all(sample.has_same_levels(each) for each in before) or at - before[0].at < self._interval
        )
        if replaces_last:
            last = self._samples.pop()
            sample = msgspec.structs.replace(sample, evictions=last.evictions + sample.evictions)
        self._samples.append(sample)
        if len(self._samples) > self._max_samples:
            self._merge_pairs()
        return HistoryChange(sample=sample, replaces_last=replaces_last)

    def _merge_pairs(self) -> None:
        whole = len(self._samples) // 2 * 2
        pairs, rest = self._samples[:whole], self._samples[whole:]
        merged = [
            msgspec.structs.replace(later, evictions=earlier.evictions + later.evictions)
            for earlier, later in zip(pairs[::2], pairs[1::2], strict=True)
        ]
        self._samples = merged + rest
        span = self._samples[-1].at - self._samples[0].at
        self._interval = span // len(self._samples)


def count_evictions(before: View, after: View) -> int:
    """Return how many pods began to leave nodes that drain.

    DaemonSet pods are not evicted, and finished pods need no eviction.
    """
    evicted = 0
    for key, node in before.nodes.items():
        current = after.nodes.get(key)
        if current is node:
            continue
        if current is None and node.state not in _LEAVING:
            continue
        if current is not None and current.state not in _LEAVING:
            continue
        staying = set(_evictable_pods(current)) if current is not None else set()
        evicted += sum(pod not in staying for pod in _evictable_pods(node))
    return evicted


def _evictable_pods(node: NodeView) -> Iterator[tuple[str, str]]:
    """Yield the pods that are not leaving yet."""
    for workload in node.workloads:
        if workload.kind == "DaemonSet":
            continue
        for pod in workload.pods:
            if not pod.deleting and pod.phase not in _FINISHED:
                yield workload.namespace, pod.name
