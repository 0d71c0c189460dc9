"""Preview of a change: both plays, and the report."""

from collections.abc import Callable
from datetime import timedelta

import msgspec

from dovetail.codec.text.suggestions import pluralize
from dovetail.preview.change import AppliedChange, Change, apply_change
from dovetail.preview.comparison import compare_pods, compare_states, compare_workloads, find_most_moved
from dovetail.preview.observation import Observation, measure_state, summarize
from dovetail.preview.observer import Observer
from dovetail.preview.play import Progress, play
from dovetail.preview.report import Latency, Preview
from dovetail.preview.rest import count_expiring
from dovetail.preview.waves import find_waves
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.fork.report import CalibratedLatency

DEFAULT_LIMIT = timedelta(hours=24)


class PreviewOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Clusters, limit and seed of a preview."""

    build: Callable[[], SimulatedCluster]
    """Forks the cluster as it is."""
    build_changed: Callable[[], SimulatedCluster]
    """Forks it with changed settings of the controller; the same if there are none."""
    limit: timedelta = DEFAULT_LIMIT
    seed: int = 1
    describe_prices: Callable[[str], str] = str
    """Returns the source of a region's prices, as a sentence."""
    progress: Callable[[str], Progress] | None = None
    """Returns the progress function of a play, by its name."""


class _Fork(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a play, without its cluster."""

    applied: AppliedChange
    observation: Observation
    expiring: int
    region: str
    assumptions: tuple[str, ...]
    latencies: tuple[Latency, ...]


def preview_change(change: Change, options: PreviewOptions) -> Preview:
    """Play a cluster with and without a change.

    The change is applied first, and only then is the cluster without it played: errors
    in files are reported at once. The two clusters are never in memory together.
    """
    changed = _play(options.build_changed, change, options, "with the change")
    without = _play(options.build, Change(), options, "without the change")
    with_change, baseline = changed.observation, without.observation
    return Preview(
        changes=changed.applied.changes,
        unchanged=changed.applied.unchanged,
        started=with_change.started,
        played_seconds=with_change.played_seconds,
        limit_seconds=options.limit.total_seconds(),
        before=with_change.before,
        without=baseline.after,
        after=with_change.after,
        difference=compare_states(with_change.after, baseline.after),
        course=with_change.course,
        course_without=baseline.course,
        waves=find_waves(with_change.nodes, with_change.evictions, with_change.started),
        workloads=compare_workloads(with_change, baseline),
        most_moved=find_most_moved(with_change),
        kept_nodes=with_change.kept_nodes,
        pods_without_node=compare_pods(with_change, baseline),
        notes=_write_notes(changed, without, options, has_events=bool(change.events)),
        assumptions=changed.assumptions,
        latencies=changed.latencies,
        seed=options.seed,
        prices=options.describe_prices(changed.region),
    )


def _play(build: Callable[[], SimulatedCluster], change: Change, options: PreviewOptions, name: str) -> _Fork:
    cluster = build()
    # The controllers read the cluster before the change is made.
    cluster.clock.run(until=cluster.clock.now())
    before = measure_state(cluster)
    observer = Observer(cluster)
    applied = apply_change(cluster, change)
    progress = options.progress(name) if options.progress is not None else None
    played = play(cluster, observer, limit=options.limit, progress=progress)
    end = observer.started + options.limit
    return _Fork(
        applied=applied,
        observation=summarize(cluster, observer, played, before),
        expiring=count_expiring(cluster.operator.cache, end) if played.at_rest else 0,
        region=cluster.ec2.region.name,
        assumptions=() if cluster.fork is None else (*cluster.fork.partly, *cluster.fork.assumptions),
        latencies=() if cluster.fork is None else tuple(map(_describe_latency, cluster.fork.latencies)),
    )


def _describe_latency(latency: CalibratedLatency) -> Latency:
    return Latency(
        name=latency.name,
        seconds=round(latency.value.total_seconds(), 3),
        source=f"median of {latency.samples:,}" if latency.samples else "default",
        workload=latency.scope,
    )


def _write_notes(
    changed: _Fork, without: _Fork, options: PreviewOptions, *, has_events: bool
) -> tuple[str, ...]:
    notes = list(changed.applied.notes)
    if not changed.applied.changes and has_events:
        notes.append("The change has no effect on this cluster.")
    elif not changed.applied.changes:
        notes.append("The change is empty: all objects equal those of the cluster.")
    if not changed.observation.course.at_rest:
        hours = options.limit.total_seconds() / 3600
        notes.append(f"Nodes or pods still move after {hours:g} hours; use a longer --for.")
    if changed.expiring:
        notes.append(
            f"{pluralize(changed.expiring, 'node')} expire within the time of --for, after all this; "
            f"without the change {without.expiring:,}. They are not played."
        )
    return tuple(notes)
