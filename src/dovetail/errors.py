"""Every error this program raises.

DovetailError
├── BadInput                 the user can fix it; exit 1, all mistakes at once
├── CatalogError             the bundled or given catalogue cannot be used
└── ScenarioError            what a scenario says cannot be done
"""

from collections.abc import Sequence

import msgspec


class DovetailError(Exception):
    """Base of all our errors, so a caller can catch ours and nothing else."""


class Mistake(msgspec.Struct, frozen=True):
    """One thing a user got wrong: where, what, and what would be right."""

    file: str
    line: int
    field: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place} {self.field}: {self.message}" if self.field else f"{place} {self.message}"


class BadInput(DovetailError):
    """What the user gave cannot be used; carries every mistake found."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(str(one) for one in self.mistakes))


class CatalogError(DovetailError):
    """The catalogue or price book cannot be used."""


class ScenarioError(DovetailError):
    """Something that a scenario says cannot be done."""
