"""Base class of all Dovetail exceptions, and errors that several packages raise.

DovetailError
├── InvalidInputError        input that the user can fix: exit code 1, all errors at once
├── CatalogError             the bundled or given instance type catalogue is unusable
└── ScenarioError            a scenario contains a step that cannot run

Other subclasses are defined beside the code that raises them.
"""

import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

_PACKAGE: Final = Path(__file__).parent
_MAX_PROBLEM: Final = 200
"""Characters of the message of an unexpected exception."""


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


def describe_internal_error(error: Exception) -> str:
    """Return an unexpected exception in one line, with its innermost location in this package."""
    problem = " ".join(str(error).split())[:_MAX_PROBLEM]
    summary = f"{type(error).__name__}: {problem}" if problem else type(error).__name__
    return f"internal error: {summary}{_find_location(error)}"


def _find_location(error: Exception) -> str:
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(_PACKAGE):
            return f" (at {path.relative_to(_PACKAGE).as_posix()}:{frame.lineno})"
    return ""
