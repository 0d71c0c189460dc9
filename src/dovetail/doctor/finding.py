"""What a check finds: what is wrong, how it was seen, and what mends it."""

from enum import StrEnum

import msgspec


class Severity(StrEnum):
    """How bad it is, worst first."""

    BROKEN = "broken"
    """Something does not work."""
    RISK = "risk"
    """It works until something happens."""
    ADVICE = "advice"
    """It works, and could work better."""


class Symptom(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a check has found."""

    about: str
    """The object: ``EC2NodeClass/default``, ``role/nodes``."""
    seen: str
    """What was looked at, and what it said."""
    wrong: str
    """What that leads to."""
    fix: str
    """A command or a patch to paste."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A symptom and the check that it is of; field names are a promise to scripts."""

    code: str
    title: str
    severity: Severity
    about: str
    seen: str
    wrong: str
    fix: str


class Missing(msgspec.Struct, frozen=True):
    """Something that could not be looked at, and why."""

    what: str
    why: str


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A check that was not made, and what it would have needed."""

    code: str
    title: str
    missing: tuple[Missing, ...]
