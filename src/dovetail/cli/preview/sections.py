"""Sections of a preview's report: the same tables and sentences for every output format."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from dovetail.cli.output.sections import Section, format_usd
from dovetail.codec.text.suggestions import pluralize
from dovetail.preview.durations import format_duration
from dovetail.preview.report import (
    BrokenLimit,
    ClusterState,
    Course,
    KeptNode,
    Preview,
    Wave,
    WorkloadDisruption,
)

_MAX_WAVES: Final = 12
_MAX_WORKLOADS: Final = 15
_MAX_KEPT: Final = 10
_MAX_PENDING: Final = 10
_MAX_ASSUMPTIONS: Final = 12
_MISSING: Final = "the dump has no "
"""Begin of the sentence that says that a kind is missing."""


def build_sections(preview: Preview, broken: Sequence[BrokenLimit]) -> list[Section]:
    """Return all sections that have something to say."""
    sections: list[Section | None] = [
        _limits(broken),
        _changes(preview),
        _summary(preview),
        _on_the_way(preview),
        _waves(preview.waves),
        _workloads(preview),
        _kept_nodes(preview.kept_nodes),
        _pods_without_node(preview),
        _basis(preview),
    ]
    return [section for section in sections if section is not None]


def _limits(broken: Sequence[BrokenLimit]) -> Section | None:
    if not broken:
        return None
    return Section(
        title="Broken limits", lines=tuple(f"{entry.limit}: {entry.message}" for entry in broken), is_bad=True
    )


def _changes(preview: Preview) -> Section:
    lines = [*preview.changes]
    lines += [f"{name}: changes nothing" for name in preview.unchanged]
    return Section(title="Change", lines=tuple(lines or ["nothing"]))


def _summary(preview: Preview) -> Section:
    states = (preview.before, preview.without, preview.after)
    difference = preview.difference
    percent = f" ({difference.price_percent:+.1f}%)" if difference.price_percent else ""

    def row(name: str, get: Callable[[ClusterState], str], change: str) -> tuple[str, ...]:
        return (name, *map(get, states), change)

    rows = [
        row("nodes", lambda state: f"{state.nodes:,}", signed(difference.nodes)),
        row(
            "$/hour",
            lambda state: f"{state.price_per_hour:,.2f}",
            f"{signed(difference.price_per_hour, digits=2)}{percent}",
        ),
        row("$/month", lambda state: f"{state.price_per_month:,.0f}", signed(difference.price_per_month)),
        row(
            "node costs/hour",
            lambda state: f"{state.node_cost_per_hour:,.2f}",
            signed(difference.node_cost_per_hour, digits=2),
        ),
        row(
            "CPU requested", lambda state: _share(state.cpu_utilization), _points(difference.cpu_utilization)
        ),
        row(
            "memory requested",
            lambda state: _share(state.memory_utilization),
            _points(difference.memory_utilization),
        ),
        row("pods", lambda state: f"{state.pods:,}", signed(difference.pods)),
    ]
    if any(state.pods_without_node for state in states):
        rows.append(
            row(
                "pods without node",
                lambda state: f"{state.pods_without_node:,}",
                signed(difference.pods_without_node),
            )
        )
    if preview.after.over_bound or preview.without.over_bound:
        rows.append(row("over lower bound", _over_bound, _compare_bounds(preview)))
    return Section(
        title="Result", header=("", "NOW", "WITHOUT IT", "WITH IT", "DIFFERENCE"), rows=tuple(rows)
    )


def signed(value: float, *, digits: int = 0) -> str:
    """Format a difference: ``+3``, ``-1.50``, ``0``."""
    return f"{value:+,.{digits}f}" if round(value, digits) else "0"


def _share(value: float) -> str:
    return f"{100 * value:.0f}%"


def _points(value: float) -> str:
    points = round(100 * value)
    return f"{points:+} points" if points else "0"


def _compare_bounds(preview: Preview) -> str:
    after, without = preview.after.over_bound, preview.without.over_bound
    return "-" if after is None or without is None else f"{100 * (after - without):+.1f} points"


def _over_bound(state: ClusterState) -> str:
    over = state.over_bound
    return "-" if over is None else f"{100 * (over - 1):.1f}%"


def _on_the_way(preview: Preview) -> Section:
    course = preview.course
    if not (course.duration or course.launched or course.terminated or course.evictions):
        return Section(title="On the way", lines=("No node and no pod moves.",))
    moved = f"The last node or pod moves {format_duration(course.duration)} after the change"
    if not course.at_rest:
        moved = f"Something still moves {format_duration(preview.played_seconds)} after the change"
    lines = [
        f"{moved}.",
        f"{pluralize(course.launched, 'node')} launched, {course.terminated:,} terminated"
        f"{_reasons(course.reasons)}.",
        f"At most {pluralize(course.peak_nodes, 'node')} at once, for "
        f"{format_usd(course.peak_price_per_hour)} per hour; both generations together cost "
        f"{format_usd(course.surge_cost)} more.",
        f"{pluralize(course.evictions, 'eviction')}{_killed(course)}.",
    ]
    without = preview.course_without
    if without.launched or without.terminated or without.evictions:
        lines.append(
            f"Without the change: {pluralize(without.launched, 'node')} launched, {without.terminated:,} "
            f"terminated, {pluralize(without.evictions, 'eviction')}, the last after "
            f"{format_duration(without.duration)}."
        )
    if preview.most_moved is not None and preview.most_moved.moves > 1:
        moved_pod = preview.most_moved
        lines.append(
            f"Moved most often: a pod of {moved_pod.workload}, {moved_pod.moves} times, in the end "
            f"{moved_pod.pod}."
        )
    return Section(title="On the way", lines=tuple(lines))


def _reasons(reasons: dict[str, int]) -> str:
    parts = [f"{count:,} {name}" for name, count in sorted(reasons.items(), key=lambda pair: -pair[1])]
    return f" ({', '.join(parts)})" if parts else ""


def _killed(course: Course) -> str:
    return f", {pluralize(course.killed, 'pod')} ended without one" if course.killed else ""


def _waves(waves: Sequence[Wave]) -> Section | None:
    if not waves:
        return None
    rows = [
        (
            str(wave.number),
            format_duration(wave.started),
            "-" if wave.finished is None else format_duration(wave.finished),
            f"{wave.nodes:,}",
            f"{wave.launched:,}",
            f"{wave.evictions:,}",
            ", ".join(f"{name} {count:,}" for name, count in wave.reasons.items()),
        )
        for wave in waves
    ]
    if len(rows) > _MAX_WAVES:
        half = _MAX_WAVES // 2
        rows = [*rows[:half], ("…", "", "", "", "", "", f"{len(rows) - 2 * half:,} more"), *rows[-half:]]
    return Section(
        title="Waves",
        header=("WAVE", "FROM", "TO", "NODES", "LAUNCHED", "EVICTIONS", "REASON"),
        rows=tuple(rows),
        last_left=True,
    )


def _workloads(preview: Preview) -> Section | None:
    affected = [entry for entry in preview.workloads if _is_affected(entry)]
    if not affected:
        return None
    rows = [
        (
            entry.workload,
            f"{entry.evictions:,}",
            f"{entry.evictions_without:,}",
            f"{entry.killed:,}",
            f"{entry.least_available:,} of {entry.replicas:,}" if entry.replicas else "-",
            format_duration(entry.pending_seconds),
        )
        for entry in affected[:_MAX_WORKLOADS]
    ]
    more = len(affected) - len(rows)
    return Section(
        title="Workloads",
        header=("WORKLOAD", "EVICTED", "WITHOUT IT", "KILLED", "LEAST READY", "PENDING"),
        rows=tuple(rows),
        footer=(f"… and {pluralize(more, 'workload')} more.",) if more > 0 else (),
    )


def _is_affected(entry: WorkloadDisruption) -> bool:
    return bool(entry.evictions or entry.killed or entry.least_available < entry.replicas)


def _kept_nodes(kept: Sequence[KeptNode]) -> Section | None:
    if not kept:
        return None
    groups: dict[str, list[KeptNode]] = {}
    for node in kept:
        groups.setdefault(node.blocker or node.message, []).append(node)
    ordered = sorted(groups.values(), key=lambda nodes: -sum(node.price_per_hour for node in nodes))
    lines = [_describe_kept(nodes) for nodes in ordered[:_MAX_KEPT]]
    if len(ordered) > _MAX_KEPT:
        lines.append(f"… and {pluralize(len(ordered) - _MAX_KEPT, 'blocker')} more.")
    return Section(title=f"Nodes that do not go ({len(kept):,})", lines=tuple(lines))


def _describe_kept(nodes: Sequence[KeptNode]) -> str:
    first = nodes[0]
    others = f" and {len(nodes) - 1:,} more" if len(nodes) > 1 else ""
    price = sum(node.price_per_hour for node in nodes)
    return f"{first.node}{others} ({first.reason.lower()}, {format_usd(price)} per hour): {first.message}"


def _pods_without_node(preview: Preview) -> Section | None:
    entries = preview.pods_without_node
    if not entries:
        return None
    lines = [
        f"{pluralize(entry.pods, 'pod')} of {entry.workload}"
        f"{' (also without the change)' if entry.also_without_change else ''}: {entry.message}"
        for entry in entries[:_MAX_PENDING]
    ]
    if len(entries) > _MAX_PENDING:
        lines.append(f"… and {pluralize(len(entries) - _MAX_PENDING, 'group')} more.")
    total = sum(entry.pods for entry in entries)
    return Section(title=f"Pods without a node ({total:,})", lines=tuple(lines))


def _basis(preview: Preview) -> Section:
    return Section(title="Basis", lines=tuple(_basis_lines(preview)))


def _basis_lines(preview: Preview) -> Iterator[str]:
    yield (
        f"Played {format_duration(preview.played_seconds)} from {preview.started:%Y-%m-%d %H:%M} UTC, "
        f"seed {preview.seed}."
    )
    yield from preview.notes
    common = [latency for latency in preview.latencies if not latency.workload]
    if common:
        listed = ", ".join(f"{latency.name} {latency.seconds:.3g}s ({latency.source})" for latency in common)
        others = len(preview.latencies) - len(common)
        own = f"; {pluralize(others, 'workload')} with pod starts of their own" if others else ""
        yield f"Latencies: {listed}{own}."
    assumptions = _join_missing(preview.assumptions)
    yield from assumptions[:_MAX_ASSUMPTIONS]
    more = len(assumptions) - _MAX_ASSUMPTIONS
    if more > 0:
        yield f"… and {pluralize(more, 'assumption')} more (-o json)."
    if preview.prices:
        yield f"Prices: {preview.prices}."


def _join_missing(assumptions: Sequence[str]) -> list[str]:
    """Return assumptions as sentences; kinds that a dump lacks in one of them."""
    missing = [text.removeprefix(_MISSING) for text in assumptions if text.startswith(_MISSING)]
    sentences = [f"{text[:1].upper()}{text[1:]}" for text in assumptions if not text.startswith(_MISSING)]
    return [*sentences, f"The dump has no {', '.join(missing)}."] if missing else sentences
