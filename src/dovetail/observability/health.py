"""What a kubelet is told when it asks how we are."""

from collections.abc import Callable, Sequence
from enum import StrEnum


class Stage(StrEnum):
    """How far a process has come."""

    STARTING = "starting"
    """Looking at the cluster and the cloud; what is there is not known yet."""
    STANDING_BY = "standing by"
    """Another replica leads; this one would take over at once."""
    WORKING = "working"
    STOPPING = "stopping"


class Health:
    """Answers for ``/healthz`` and ``/readyz``; empty means well.

    Ready is who works, or stands by to take over. Alive is who gets anything done at all:
    everything happens on one loop, so a loop that is stuck gives no answer, which a
    kubelet takes as no. Being cut off from the API server is not ill: it is tried again
    and again, and a restart would not help.
    """

    def __init__(self) -> None:
        self.stage = Stage.STARTING
        self._stuck: Callable[[], Sequence[str]] = lambda: ()

    def watch_over(self, stuck: Callable[[], Sequence[str]]) -> None:
        """Have somebody say what no longer moves, though it should by itself."""
        self._stuck = stuck

    def unready(self) -> str:
        """Tell why no work is done here, nor would be."""
        if self.stage in (Stage.STANDING_BY, Stage.WORKING):
            return self.unwell()
        return str(self.stage)

    def unwell(self) -> str:
        """Tell why only a restart helps."""
        stuck = self._stuck()
        return f"stuck: {', '.join(stuck)}" if stuck else ""
