"""Play: run a simulated cluster until nothing moves any more."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.preview.observer import Observer
from dovetail.preview.rest import QUIET, QUIET_UNSETTLED, find_next_action
from dovetail.simulator.cluster import SimulatedCluster

_SLICE: Final = timedelta(minutes=1)
"""Virtual time between two reports of progress."""

Progress = Callable[[timedelta, Observer], None]
"""Called with the virtual time since the start, and the observer."""


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """End of a play."""

    at_rest: bool
    """False: the limit came first."""
    seconds: float


def play(
    cluster: SimulatedCluster, observer: Observer, *, limit: timedelta, progress: Progress | None = None
) -> Played:
    """Run a cluster until it is at rest, or for ``limit``."""
    start = cluster.clock.now()
    end = start + limit
    not_before = start
    """Time alone lets a node go then."""
    at_rest = False
    while not at_rest and cluster.clock.now() < end:
        quiet = QUIET_UNSETTLED if observer.unsettled else QUIET
        due = max(observer.last_move, not_before) + quiet
        if due > cluster.clock.now():
            _run(cluster, observer, start, min(due, end), progress)
            continue
        action = find_next_action(cluster.operator.cache, cluster.clock.now())
        at_rest = action is None or action > end
        not_before = not_before if action is None else action
    observer.finish()
    return Played(at_rest=at_rest, seconds=(cluster.clock.now() - start).total_seconds())


def _run(
    cluster: SimulatedCluster, observer: Observer, start: datetime, until: datetime, progress: Progress | None
) -> None:
    while cluster.clock.now() < until:
        cluster.clock.run(until=min(until, cluster.clock.now() + _SLICE))
        if progress is not None:
            progress(cluster.clock.now() - start, observer)
