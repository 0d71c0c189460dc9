"""Health of the process, for the probes ``/healthz`` and ``/readyz``."""

from collections.abc import Callable, Sequence
from enum import StrEnum


class ProcessPhase(StrEnum):
    """Phase of a process."""

    STARTING = "starting"
    """The cache is not synced yet."""
    STANDBY = "standby"
    """Another replica leads; this one can take over at once."""
    LEADING = "leading"
    STOPPING = "stopping"


class Health:
    """Readiness and liveness; an empty message means healthy.

    Leader and standby replicas are ready. Liveness fails only if a restart helps:
    if watches or reconciles are stuck. A blocked event loop does not answer, which
    the kubelet takes as a failure. An unreachable API server is not a failure:
    requests are retried, and a restart would not help.
    """

    def __init__(self) -> None:
        self.phase = ProcessPhase.STARTING
        self._get_stuck: Callable[[], Sequence[str]] = lambda: ()

    def set_stuck_check(self, get_stuck: Callable[[], Sequence[str]]) -> None:
        """Set the function that names watches and controllers without progress."""
        self._get_stuck = get_stuck

    def get_readiness_error(self) -> str:
        if self.phase in (ProcessPhase.STANDBY, ProcessPhase.LEADING):
            return self.get_liveness_error()
        return str(self.phase)

    def get_liveness_error(self) -> str:
        stuck = self._get_stuck()
        return f"stuck: {', '.join(stuck)}" if stuck else ""
