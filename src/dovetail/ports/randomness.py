"""RandomSource: randomness for generated names and jitter."""

from typing import Protocol


class RandomSource(Protocol):
    """Seeded in simulations; the operating system's randomness otherwise."""

    def random(self) -> float:
        """Return a number in [0, 1)."""

    def alphanumeric(self, length: int) -> str:
        """Return a random string like the suffix of ``metadata.generateName``."""
