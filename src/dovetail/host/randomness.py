"""Dice that nobody can foresee."""

import random
from typing import Final

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""As Kubernetes uses them: no vowels, so no words by accident."""


class RealChance:
    """``ports.randomness.Chance`` from the operating system's randomness."""

    def __init__(self) -> None:
        self._dice = random.SystemRandom()

    def fraction(self) -> float:
        return self._dice.random()

    def letters(self, count: int) -> str:
        return "".join(self._dice.choices(_LETTERS, k=count))
