"""Findings of checks: evidence, consequence and fix."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec


class Severity(StrEnum):
    """Severity of a finding, worst first."""

    BROKEN = "broken"
    """Something does not work."""
    RISK = "risk"
    """It works, but may fail."""
    ADVICE = "advice"
    """It works, but can be improved."""


class Symptom(msgspec.Struct, frozen=True, kw_only=True):
    """One problem that a check has detected."""

    about: str
    """The object: ``EC2NodeClass/default``, ``role/nodes``."""
    seen: str
    """Evidence: the field or resource and its value."""
    wrong: str
    """Consequence."""
    fix: str
    """A command or patch to copy."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A symptom with its check. Field names are part of the JSON output."""

    code: str
    title: str
    severity: Severity
    about: str
    seen: str
    wrong: str
    fix: str


class Missing(msgspec.Struct, frozen=True):
    """An unknown fact and the reason. Field names are part of the JSON output."""

    what: str
    why: str


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A check that did not run, with its missing facts."""

    code: str
    title: str
    missing: tuple[Missing, ...]


def merge_patch(target: str, patch: Mapping[str, Any]) -> str:
    """Return the kubectl command that applies a merge patch to ``KIND NAME``."""
    return f"kubectl patch {target} --type merge -p '{json.dumps(patch, separators=(',', ':'))}'"
