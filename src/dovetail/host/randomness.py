"""Random source from the operating system."""

import random
from typing import Final

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' alphabet for generated names: without vowels, to avoid words."""


class SystemRandomSource:
    """``ports.randomness.RandomSource`` on ``random.SystemRandom``."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def random(self) -> float:
        return self._random.random()

    def alphanumeric(self, length: int) -> str:
        return "".join(self._random.choices(_LETTERS, k=length))
