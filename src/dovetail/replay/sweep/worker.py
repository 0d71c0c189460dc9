"""One point of a sweep, replayed."""

from pathlib import Path

import msgspec

from dovetail.codec.text.suggestions import pluralize
from dovetail.core.disruption.policy import DEFAULT_POLICY
from dovetail.errors import DovetailError, describe_internal_error
from dovetail.host.gc import release_memory
from dovetail.model.settings import ControllerSettings
from dovetail.policies.process import open_policy
from dovetail.replay.play import ReplayOptions, replay_trace
from dovetail.replay.report import Replay
from dovetail.replay.sweep.nodepool_keys import PoolChanges
from dovetail.replay.sweep.spot_share import limit_spot
from dovetail.trace.reader import Trace, load_trace


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A set of settings to replay the trace with."""

    values: tuple[tuple[str, str], ...]
    """Key and value of what is varied; empty: the current settings."""
    settings: ControllerSettings
    pools: PoolChanges
    policy: str = DEFAULT_POLICY.name


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of the replay of a point."""

    cost: float
    evictions: int
    killed: int
    waiting_p50: float
    waiting_p95: float
    waiting_worst: float
    unschedulable: int
    launched_per_day: float
    node_hours: float
    peak_nodes: int


class SweepInput(msgspec.Struct, frozen=True, kw_only=True):
    """Trace and options that all points share."""

    trace: str
    """Path; local workers read it."""
    options: ReplayOptions


class Worker:
    """Replays points of one sweep; the trace is read once."""

    def __init__(self, shared: SweepInput, trace: Trace | None = None) -> None:
        self._options = shared.options
        self._trace = trace if trace is not None else load_trace(Path(shared.trace))

    def run(self, point: Point) -> Outcome | str:
        """Return the outcome, or the error of settings that cannot be replayed."""
        try:
            return self._replay(point)
        except MemoryError:
            raise  # The process ends and frees its memory; the point is replayed in another one.
        except Exception as error:  # noqa: BLE001 - a bug in one replay must not end the others
            return f"{describe_internal_error(error)}; this is a bug in Dovetail"
        finally:
            # A simulated cluster has cycles: without this, several of them fill the memory.
            release_memory()

    def _replay(self, point: Point) -> Outcome | str:
        change_pool = point.pools if point.pools.values else None
        trace, manifests = self._trace, self._options.manifests
        if (share := point.pools.spot_share) is not None:
            limited = limit_spot(trace, manifests, share)
            trace, manifests = limited.trace, limited.manifests
        try:
            with open_policy(point.policy) as policy:
                options = msgspec.structs.replace(
                    self._options,
                    settings=point.settings,
                    change_pool=change_pool,
                    manifests=manifests,
                    policy=policy,
                )
                replay = replay_trace(trace, options)
        except DovetailError as error:
            return str(error)
        if replay.policy_failures:
            return (
                f"policy {point.policy!r} failed {pluralize(replay.policy_failures, 'time')}, and the "
                f"built-in policy chose then; first failure: {replay.policy_error}"
            )
        return summarize(replay)


def summarize(replay: Replay) -> Outcome:
    """Return the figures of a replay that a sweep compares."""
    return Outcome(
        cost=replay.cost,
        evictions=replay.evictions,
        killed=replay.killed,
        waiting_p50=replay.waiting.p50,
        waiting_p95=replay.waiting.p95,
        waiting_worst=replay.waiting.worst,
        unschedulable=replay.unschedulable,
        launched_per_day=replay.launched_per_day,
        node_hours=replay.node_hours,
        peak_nodes=replay.peak_nodes,
    )
