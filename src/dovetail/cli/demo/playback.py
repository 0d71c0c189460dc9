"""How fast the picture shows virtual time."""

from datetime import timedelta
from typing import Final, Protocol

LONGEST: Final = 10.0
"""Real seconds that a picture at its own pace takes, whatever it shows."""
_SHARE: Final = 1 / 60
"""Of the real time left, what a step gets in which something happens."""
_DWELL: Final = 1 / 12
"""Of the real time left, what the end of a phase gets."""
_QUIET_SPEED: Final = 10.0
"""Virtual seconds a second when nothing has happened for a moment …"""
_QUIET_GAIN: Final = 1.0
"""… and by how much that grows with each second in which still nothing happens."""
_PICTURES: Final = 12
"""A second."""


class Pace(Protocol):
    """Decides how long to look at what."""

    @property
    def step(self) -> timedelta:
        """Virtual time from one look to the next."""

    def lasts(self, *, busy: bool) -> float:
        """Return the real seconds that a step takes in which something happened, or nothing."""

    def dwells(self) -> float:
        """Return the real seconds for what a phase has come to."""


class Steady:
    """So many virtual seconds in each real one."""

    def __init__(self, speed: float) -> None:
        self.step = timedelta(seconds=speed / _PICTURES)

    def lasts(self, *, busy: bool) -> float:
        return 1 / _PICTURES

    def dwells(self) -> float:
        return 0.0


class Warping:
    """Slow while something happens, faster and faster while nothing does.

    Never longer than ``longest`` in all: each step takes a share of what is left.
    """

    step = timedelta(seconds=0.2)

    def __init__(self, *, longest: float = LONGEST) -> None:
        self._left = longest
        self._quiet = 0.0

    def lasts(self, *, busy: bool) -> float:
        length = self.step.total_seconds()
        share = self._left * _SHARE
        if busy:
            self._quiet = 0.0
        else:
            share = min(share, length / (_QUIET_SPEED + self._quiet * _QUIET_GAIN))
            self._quiet += length
        self._left -= share
        return share

    def dwells(self) -> float:
        share = self._left * _DWELL
        self._left -= share
        return share
