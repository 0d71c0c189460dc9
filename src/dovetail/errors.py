"""Base class of all Dovetail exceptions, and errors that several packages raise.

DovetailError
├── InvalidInputError        input that the user can fix: exit code 1, all errors at once
├── CatalogError             the bundled or given instance type catalogue is unusable
└── ScenarioError            a scenario contains a step that cannot run

Other subclasses are defined beside the code that raises them.
"""

from collections.abc import Sequence

import msgspec


class DovetailError(Exception):
    """Base class of all exceptions that Dovetail raises on purpose."""


class ValidationError(msgspec.Struct, frozen=True):
    """One error in a user's file: file, line, field and what is wrong.

    Not an exception: all errors of an input are collected and reported together.
    """

    file: str
    line: int
    """Counted from 1; 0 if the error concerns the whole file."""
    field: str
    """Path in the object, such as ``spec.weight``; empty if it has none."""
    message: str
    """The error and, where possible, a suggestion."""

    def __str__(self) -> str:
        location = f"{self.file}:{self.line}" if self.line else self.file
        if self.field:
            return f"{location} {self.field}: {self.message}"
        return f"{location} {self.message}"


class InvalidInputError(DovetailError):
    """User input is invalid; carries every validation error found in it."""

    def __init__(self, errors: Sequence[ValidationError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(str(error) for error in self.errors))


class CatalogError(DovetailError):
    """The instance type catalogue or a price table cannot be used."""


class ScenarioError(DovetailError):
    """A scenario contains a step that cannot run."""
