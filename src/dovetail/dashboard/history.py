"""Bounded history of a cluster's totals, for the timeline."""

from typing import Final

import msgspec

from dovetail.view.document import View

MAX_SAMPLES: Final = 2048
"""Half an hour of a change every second; of a longer time with fewer points per hour."""


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
        self._evictions = 0
        """Of the last document, since its source began to watch."""
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
            evictions=max(0, view.totals.evictions - self._evictions) if self._samples else 0,
        )
        self._evictions = view.totals.evictions
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
