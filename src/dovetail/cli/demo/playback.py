"""Playback speed of the live view."""

from datetime import timedelta
from typing import Final, Protocol

MAX_SECONDS: Final = 10.0
"""Maximum real seconds of adaptive playback."""
_STEP_SHARE: Final = 1 / 60
"""Share of the remaining real time for a step with events."""
_PHASE_END_SHARE: Final = 1 / 12
"""Share of the remaining real time for the end of a phase."""
_QUIET_SPEED: Final = 10.0
"""Virtual seconds per real second while nothing happens."""
_QUIET_GAIN: Final = 1.0
"""Growth of that speed per quiet virtual second."""
_FRAMES_PER_SECOND: Final = 12


class Playback(Protocol):
    """Maps virtual time to real time."""

    @property
    def step(self) -> timedelta:
        """Virtual time between two frames."""

    def step_seconds(self, *, busy: bool) -> float:
        """Return the real seconds of a step with or without events."""

    def phase_end_seconds(self) -> float:
        """Return the real seconds for the end of a phase."""


class FixedSpeed:
    """Fixed ratio of virtual to real seconds."""

    def __init__(self, speed: float) -> None:
        self.step = timedelta(seconds=speed / _FRAMES_PER_SECOND)

    def step_seconds(self, *, busy: bool) -> float:
        return 1 / _FRAMES_PER_SECOND

    def phase_end_seconds(self) -> float:
        return 0.0


class AdaptiveSpeed:
    """Slow during events, increasingly fast otherwise.

    Takes at most ``max_seconds`` in all: each step gets a share of the rest.
    """

    step = timedelta(seconds=0.2)

    def __init__(self, *, max_seconds: float = MAX_SECONDS) -> None:
        self._left = max_seconds
        self._quiet = 0.0

    def step_seconds(self, *, busy: bool) -> float:
        length = self.step.total_seconds()
        share = self._left * _STEP_SHARE
        if busy:
            self._quiet = 0.0
        else:
            share = min(share, length / (_QUIET_SPEED + self._quiet * _QUIET_GAIN))
            self._quiet += length
        self._left -= share
        return share

    def phase_end_seconds(self) -> float:
        share = self._left * _PHASE_END_SHARE
        self._left -= share
        return share
