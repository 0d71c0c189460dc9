"""Waves of a roll-out: nodes that go together, within budgets."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from dovetail.preview.observer import Eviction, ObservedNode
from dovetail.preview.report import Wave


def find_waves(
    nodes: Iterable[ObservedNode], evictions: Sequence[Eviction], started: datetime
) -> tuple[Wave, ...]:
    """Return the waves in order.

    A wave begins with a disruption and takes all that begin before the first of its
    nodes is gone: with budgets, these are the nodes that the budgets allow at once.
    """
    observed = list(nodes)
    groups: list[list[ObservedNode]] = []
    first_gone: datetime | None = None
    for at, node in sorted(_disrupted(observed), key=lambda pair: (pair[0], pair[1].claim)):
        if not groups or (first_gone is not None and at >= first_gone):
            groups.append([])
            first_gone = None
        groups[-1].append(node)
        if node.gone is not None:
            first_gone = node.gone if first_gone is None else min(first_gone, node.gone)
    starts = [min(at for at, _ in _disrupted(group)) for group in groups]
    launches = sorted(node.created for node in observed if node.created is not None)
    moments = [eviction.at for eviction in evictions]
    waves = []
    for index, group in enumerate(groups):
        begin = starts[index] if index else started
        end = starts[index + 1] if index + 1 < len(groups) else None
        gone = [node.gone for node in group if node.gone is not None]
        waves.append(
            Wave(
                number=index + 1,
                started=_seconds(starts[index], started),
                finished=_seconds(max(gone), started) if len(gone) == len(group) else None,
                nodes=len(group),
                launched=_count_between(launches, begin, end),
                evictions=_count_between(moments, begin, end),
                reasons=dict(sorted(Counter(node.reason for node in group).items())),
            )
        )
    return tuple(waves)


def _disrupted(nodes: Iterable[ObservedNode]) -> Iterable[tuple[datetime, ObservedNode]]:
    return [(node.disrupted, node) for node in nodes if node.disrupted is not None]


def _count_between(moments: Sequence[datetime], begin: datetime, end: datetime | None) -> int:
    last = len(moments) if end is None else bisect_left(moments, end)
    return last - bisect_left(moments, begin)


def _seconds(moment: datetime, started: datetime) -> float:
    return round((moment - started).total_seconds(), 3)
