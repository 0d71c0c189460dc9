"""Sections of a replay's report."""

from collections.abc import Iterator
from typing import Final

from dovetail.cli.output.sections import Section
from dovetail.codec.text.suggestions import pluralize
from dovetail.preview.durations import format_duration
from dovetail.replay.report import Replay

_MAX_WORKLOADS: Final = 10
_MAX_SENTENCES: Final = 12


def build_sections(replay: Replay) -> list[Section]:
    """Return all sections that have something to say."""
    sections = [_summary(replay), _nodes(replay), _workloads(replay), _time(replay), _basis(replay)]
    return [section for section in sections if section is not None]


def _summary(replay: Replay) -> Section:
    waiting = replay.waiting
    name = f" of {replay.cluster}" if replay.cluster else ""
    rows = [
        ("cost", f"${replay.cost:,.2f}", f"${replay.cost_per_day:,.2f} a day"),
        ("node hours", f"{replay.node_hours:,.1f}", f"{replay.average_nodes:,.1f} nodes on average"),
        ("peak", pluralize(replay.peak_nodes, "node"), f"${replay.peak_price_per_hour:,.2f} per hour"),
        ("nodes launched", f"{replay.launched:,}", f"{replay.launched_per_day:,.0f} a day"),
        ("evictions", f"{replay.evictions:,}", _list_counts(replay.evictions_by_reason)),
        ("pods killed", f"{replay.killed:,}", "ended with their node, without an eviction"),
        (
            "pods' waiting time",
            format_duration(waiting.p50),
            f"median of {waiting.pods:,}; p95 {format_duration(waiting.p95)}, "
            f"worst {format_duration(waiting.worst)}",
        ),
        ("unschedulable pods", f"{replay.unschedulable:,}", _describe_pending(replay.pending)),
    ]
    return Section(
        title=f"Replay{name}: {format_duration(replay.seconds)} from {replay.started:%Y-%m-%d %H:%M %Z}",
        lines=tuple(f"Setting {setting}" for setting in replay.settings),
        header=("", "total", ""),
        rows=tuple(rows),
        last_left=True,
    )


def _nodes(replay: Replay) -> Section | None:
    if not replay.terminated:
        return None
    return Section(
        title="Nodes terminated",
        header=("reason", "nodes"),
        rows=tuple((reason or "other", f"{number:,}") for reason, number in replay.terminated.items()),
    )


def _workloads(replay: Replay) -> Section | None:
    if not replay.workloads:
        return None
    more = len(replay.workloads) - _MAX_WORKLOADS
    return Section(
        title="Evictions by workload",
        header=("workload", "kind", "evictions", "killed"),
        rows=tuple(
            (entry.workload, entry.kind, f"{entry.evictions:,}", f"{entry.killed:,}")
            for entry in replay.workloads[:_MAX_WORKLOADS]
        ),
        left=2,
        footer=(f"and {pluralize(more, 'more workload')}: -o json",) if more > 0 else (),
    )


def _time(replay: Replay) -> Section:
    return Section(
        title="Over time",
        header=("from", "cost", "launched", "evictions"),
        rows=tuple(
            (
                format_duration(interval.at),
                f"${interval.cost:,.2f}",
                f"{interval.launched:,}",
                f"{interval.evictions:,}",
            )
            for interval in replay.intervals
        ),
    )


def _basis(replay: Replay) -> Section:
    sentences = list(_list_sentences(replay))
    more = len(sentences) - _MAX_SENTENCES
    footer = (f"and {pluralize(more, 'more sentence')}: -o json",) if more > 0 else ()
    return Section(title="Basis", lines=tuple(sentences[:_MAX_SENTENCES]), footer=footer)


def _list_sentences(replay: Replay) -> Iterator[str]:
    yield f"seed {replay.seed}; {replay.prices}"
    yield from replay.notes
    yield from replay.assumptions


def _describe_pending(pods: int) -> str:
    return f"{pluralize(pods, 'pod')} {'waits' if pods == 1 else 'wait'} at the end"


def _list_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {reason}" for reason, number in counts.items())
