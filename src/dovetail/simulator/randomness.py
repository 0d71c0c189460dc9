"""Dice that fall the same way every time."""

from typing import Final

_MASK: Final = (1 << 64) - 1
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""As Kubernetes uses them: no vowels, so no words by accident."""


class SeededChance:
    """``ports.randomness.Chance`` from a seed (splitmix64: short, and good enough for dice)."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def fraction(self) -> float:
        return (self._next() >> 11) / (1 << 53)

    def letters(self, count: int) -> str:
        return "".join(_LETTERS[self._next() % len(_LETTERS)] for _ in range(count))

    def _next(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)
