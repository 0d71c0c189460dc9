"""Dice: names, jitter, and nothing else."""

from typing import Protocol


class Chance(Protocol):
    """Seeded in a simulation; the system's own elsewhere."""

    def fraction(self) -> float:
        """Return a number from 0 up to, but not including, 1."""

    def letters(self, count: int) -> str:
        """Return letters and digits as Kubernetes puts them behind generated names."""
