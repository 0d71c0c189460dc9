"""Label requirements that rule a pod out: wording, with the value that was probably meant."""

import json
import re
from collections.abc import Sequence, Set
from difflib import get_close_matches

from dovetail.core.scheduling.arrays.nodepools import NodePoolTable
from dovetail.core.scheduling.arrays.types import Bools
from dovetail.model import labels as label_keys
from dovetail.model.kube.requirements import Requirement, RequirementConflict, Requirements, parse_integer

_NOT_TEXT = re.compile(r"true|false|yes|no|on|off|y|n|null|[0-9].*", re.IGNORECASE)
"""Values of labels and taints that YAML may not read as text without quotes."""
_MIN_SIMILARITY = 0.75
_MAX_COMPARISONS = 20_000
"""Pairs of values compared in one plan: some seconds; later values get no suggestion."""


class ValueSuggestions:
    """Corrections of label values that no NodePool and no instance type has; cached."""

    def __init__(self, tables: Sequence[NodePoolTable]) -> None:
        self._tables = tables
        self._known: dict[str, frozenset[str]] = {}
        self._hints: dict[tuple[str, str], str] = {}
        self._comparisons = 0

    def suggest(self, requirement: Requirement) -> str:
        """Return the end of a message that names the value that was probably meant."""
        if requirement.complement or len(requirement.values) != 1:
            return ""
        (value,) = requirement.values
        key = (requirement.key, value)
        if key not in self._hints:
            known, nearest = self._known_values(requirement.key), None
            if value not in known and self._comparisons < _MAX_COMPARISONS:
                self._comparisons += len(known)
                nearest = _find_nearest(requirement.key, value, known)
            self._hints[key] = f" (did you mean {nearest!r}?)" if nearest else ""
        return self._hints[key]

    def _known_values(self, key: str) -> frozenset[str]:
        known = self._known.get(key)
        if known is None:
            requirements = {
                id(requirement): requirement
                for table in self._tables
                for requirement in table.label_requirements(key)
            }
            values = (
                requirement.values for requirement in requirements.values() if not requirement.complement
            )
            known = self._known[key] = frozenset().union(*values)
        return known


def _find_nearest(key: str, value: str, known: Set[str]) -> str | None:
    """Return the known value that resembles ``value``; None for a number."""
    if parse_integer(value) is not None:
        return None
    if key in (label_keys.ZONE, label_keys.ZONE_ID):
        # Zones differ in the last character only: another one is no correction of a misspelt name.
        known = {zone for zone in known if zone[-1:] == value[-1:]}
    other_case = [name for name in sorted(known) if name.casefold() == value.casefold()]
    close = other_case or get_close_matches(value, sorted(known), n=1, cutoff=_MIN_SIMILARITY)
    return close[0] if close else None


def describe_conflict(
    conflict: RequirementConflict,
    requirements: Requirements,
    table: NodePoolTable,
    suggestions: ValueSuggestions,
) -> str:
    """Describe the conflict of a pod's requirements with those of a NodePool."""
    if conflict.provided is not None:
        hint = suggestions.suggest(conflict.required)
        return f"requires {conflict.required}{hint}; this NodePool has {conflict.provided}"
    undefined = find_undefined(requirements, table)
    message = str(conflict) if len(undefined) == 1 else _name_undefined(undefined)
    foreign = [key for key in undefined if label_keys.find_origin(key)]
    if foreign:
        return "; ".join((message, *map(_advise_on_foreign_label, foreign)))
    values = {key: min(requirements[key].values, default="") for key in undefined}
    if not all(values.values()) or any(
        requirements[key].complement or label_keys.is_rejected_in_template(key) for key in undefined
    ):
        return f"{message}; nodes of this NodePool do not have {'it' if len(undefined) == 1 else 'them'}"
    labels = ", ".join(f"{key}: {quote(value)}" for key, value in values.items())
    return f"{message}; would match if spec.template.metadata.labels of this NodePool had {{{labels}}}"


def _advise_on_foreign_label(key: str) -> str:
    equivalent = label_keys.suggest_key(key)
    advice = f"select {equivalent} instead" if equivalent else "remove the selector"
    return f"only nodes of {label_keys.find_origin(key)} have {key}: {advice}"


def find_undefined(requirements: Requirements, table: NodePoolTable) -> list[str]:
    """Return the required labels that neither the NodePool nor instance types define, by name."""
    return [
        key
        for key in sorted(requirements)
        if key not in table.requirements
        and key not in label_keys.WELL_KNOWN
        and not requirements[key].allows_absence
    ]


def _name_undefined(keys: list[str]) -> str:
    return f"labels {', '.join(map(repr, keys))} are not defined on the node side"


def describe_missing_type(
    requirement: Requirement,
    requirements: Requirements,
    table: NodePoolTable,
    root_rows: Bools,
    suggestions: ValueSuggestions,
) -> str:
    """Describe a requirement that no type meets; ``root_rows`` are the types of the NodePool."""
    if (table.rows_matching(requirement) & root_rows).any():
        return f"no instance type of this NodePool meets all of: {requirements}"
    shown = shorten(sorted(table.label_values(requirement.key, root_rows)), 8)
    hint = suggestions.suggest(requirement)
    return f"requires {requirement}{hint}; types of this NodePool have {shown or 'no such label'}"


def quote(value: str) -> str:
    """Return a label or taint value as YAML text."""
    return json.dumps(value) if _NOT_TEXT.fullmatch(value) else value


def shorten(names: list[str], limit: int) -> str:
    """Return the first names, and the number of the others."""
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
