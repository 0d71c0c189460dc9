"""Set algebra of label requirements, as in Karpenter's ``scheduling`` package.

A requirement is a set of label values, or the complement of one, with optional
inclusive integer bounds. The node side and the pod side are not symmetric: see
``Requirements.find_conflict``.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict


class Operator(StrEnum):
    """Operators of requirements; Gte and Lte are for NodePools and NodeClaims only."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"
    GTE = "Gte"
    LTE = "Lte"


NUMERIC_OPERATORS = frozenset({Operator.GT, Operator.LT, Operator.GTE, Operator.LTE})
NO_VALUES: frozenset[str] = frozenset()
MAX_INT = 2**63 - 1
_DIGITS = re.compile(r"[+-]?[0-9]{1,64}")


class RequirementSpec(msgspec.Struct, frozen=True, cache_hash=True, weakref=True):
    """One requirement as written on an object."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    min_values: int | None = None


class Requirement(msgspec.Struct, frozen=True, cache_hash=True):
    """Set of allowed values for one label key."""

    key: str
    complement: bool
    values: frozenset[str] = NO_VALUES
    gte: int | None = None
    lte: int | None = None
    min_values: int | None = None
    must_exist: bool = False
    """The label must exist although the operator alone does not require it.

    Set on the intersections ``Exists ∩ NotIn [a]`` and ``In [a] ∩ In [b]``.
    Without it, a node that lacks the label would satisfy them.
    """

    @staticmethod
    def from_spec(spec: RequirementSpec) -> "Requirement":
        """Create a requirement from an entry; the key is normalized."""
        key, operator, low = label_keys.normalize_key(spec.key), spec.operator, spec.min_values
        if operator is Operator.IN:
            return Requirement(key, False, frozenset(spec.values), min_values=low)
        if operator is Operator.NOT_IN:
            return Requirement(key, True, frozenset(spec.values), min_values=low)
        if operator is Operator.EXISTS:
            return Requirement(key, True, min_values=low)
        if operator is Operator.DOES_NOT_EXIST:
            return Requirement(key, False, min_values=low)
        bound = int(spec.values[0])
        if operator is Operator.GT or operator is Operator.GTE:
            gte = bound + (operator is Operator.GT)
            if gte > MAX_INT:
                return Requirement(key, False, min_values=low, must_exist=True)
            return Requirement(key, True, gte=gte, min_values=low)
        return Requirement(key, True, lte=bound - (operator is Operator.LT), min_values=low)

    @staticmethod
    def one_of(key: str, *values: str) -> "Requirement":
        return Requirement(key, False, frozenset(values))

    @staticmethod
    def exists(key: str) -> "Requirement":
        return Requirement(key, True)

    @staticmethod
    def does_not_exist(key: str) -> "Requirement":
        return Requirement(key, False)

    @property
    def operator(self) -> Operator:
        """Equivalent operator; it does not express bounds."""
        if self.complement:
            return Operator.NOT_IN if self.values else Operator.EXISTS
        return Operator.IN if self.values else Operator.DOES_NOT_EXIST

    @property
    def allows_absence(self) -> bool:
        """True if an object without this label satisfies the requirement."""
        if self.must_exist or self.gte is not None or self.lte is not None:
            return False
        return self.operator in (Operator.NOT_IN, Operator.DOES_NOT_EXIST)

    def has(self, value: str) -> bool:
        return (value in self.values) != self.complement and self._within(value)

    def _within(self, value: str) -> bool:
        if self.gte is None and self.lte is None:
            return True
        number = parse_integer(value)
        if number is None:
            return False
        return (self.gte is None or number >= self.gte) and (self.lte is None or number <= self.lte)

    def intersection(self, other: "Requirement") -> "Requirement":
        """Return the values that both allow; keeps the larger minValues."""
        gte = _combine_bounds(max, self.gte, other.gte)
        lte = _combine_bounds(min, self.lte, other.lte)
        low = _combine_bounds(max, self.min_values, other.min_values)
        must_exist = not (self.allows_absence and other.allows_absence)
        if gte is not None and lte is not None and gte > lte:
            return Requirement(self.key, False, min_values=low, must_exist=True)
        if self.complement and other.complement:
            bounded = Requirement(self.key, True, gte=gte, lte=lte)
            excluded = frozenset(v for v in self.values | other.values if bounded._within(v))
            # Bounds and a bare Exists require the label by themselves.
            implied = gte is not None or lte is not None or not excluded
            return Requirement(self.key, True, excluded, gte, lte, low, must_exist and not implied)
        if self.complement:
            allowed = other.values - self.values
        elif other.complement:
            allowed = self.values - other.values
        else:
            allowed = self.values & other.values
        if gte is not None or lte is not None:
            bounded = Requirement(self.key, True, gte=gte, lte=lte)
            allowed = frozenset(v for v in allowed if bounded._within(v))
        return Requirement(self.key, False, allowed, min_values=low, must_exist=must_exist and not allowed)

    def overlaps(self, other: "Requirement") -> bool:
        """Return True if some value satisfies both."""
        both = self.intersection(other)
        return both.complement or bool(both.values)

    def to_specs(self) -> list[RequirementSpec]:
        """Return the entries of a NodeClaim; two for a requirement with two bounds.

        Excluded values are kept beside bounds; Karpenter drops them.
        """
        low, written = self.min_values, []
        if self.gte is not None:
            written.append(RequirementSpec(self.key, Operator.GTE, (str(self.gte),), low))
        if self.lte is not None:
            written.append(RequirementSpec(self.key, Operator.LTE, (str(self.lte),), low))
        if not written or self.values:
            values = tuple(sorted(self.values))
            written.append(RequirementSpec(self.key, self.operator, values, low))
        if self.must_exist:
            written.append(RequirementSpec(self.key, Operator.EXISTS, (), low))
        return written

    def __str__(self) -> str:
        if self.must_exist and not self.complement:
            return f"{self.key} with no allowed value (its requirements exclude each other)"
        shown = sorted(self.values)
        text = ", ".join(shown[:5]) + (f" and {len(shown) - 5} more" if len(shown) > 5 else "")
        parts = []
        if self.gte is not None:
            parts.append(f"{self.key} >= {self.gte}")
        if self.lte is not None:
            parts.append(f"{self.key} <= {self.lte}")
        if not parts or self.values:
            operator = self.operator
            bare = operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST)
            parts.append(f"{self.key} {operator}" if bare else f"{self.key} {operator} [{text}]")
        if self.must_exist:
            parts.append(f"{self.key} {Operator.EXISTS}")
        return ", ".join(parts)


class RequirementConflict(msgspec.Struct, frozen=True):
    """First key on which two requirement sets are incompatible."""

    key: str
    required: Requirement
    provided: Requirement | None
    """None if the node side does not define the key."""

    def __str__(self) -> str:
        if self.provided is None:
            if self.key in label_keys.REMOVED_LABELS:
                return f"label {self.key!r} {label_keys.REMOVED_LABELS[self.key]}"
            suggestion = label_keys.suggest_key(self.key)
            hint = f" (did you mean {suggestion!r}?)" if suggestion else ""
            return f"label {self.key!r} is not defined on the node side{hint}"
        return f"{self.required} is incompatible with {self.provided}"


class Requirements(FrozenDict[str, Requirement]):
    """Requirements by key; a missing key allows any value."""

    __slots__ = ()

    @classmethod
    def from_requirements(cls, requirements: Iterable[Requirement]) -> "Requirements":
        """Collect requirements; several on one key are intersected."""
        merged: dict[str, Requirement] = {}
        for requirement in requirements:
            previous = merged.get(requirement.key)
            merged[requirement.key] = requirement if previous is None else previous.intersection(requirement)
        return cls(merged)

    @classmethod
    def from_specs(cls, specs: Iterable[RequirementSpec]) -> "Requirements":
        return cls.from_requirements(Requirement.from_spec(spec) for spec in specs)

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> "Requirements":
        return cls.from_requirements(
            Requirement.one_of(label_keys.normalize_key(key), value) for key, value in labels.items()
        )

    def intersection(self, more: Iterable[Requirement]) -> "Requirements":
        """Return the intersection with ``more``."""
        return Requirements.from_requirements([*self.values(), *more])

    def without(self, *keys: str) -> "Requirements":
        return Requirements({key: value for key, value in self.items() if key not in keys})

    def get_or_exists(self, key: str) -> Requirement:
        """Return the requirement on ``key``; ``Exists`` if there is none."""
        requirement = self.get(key)
        return Requirement.exists(key) if requirement is None else requirement

    def find_disjoint_key(self, other: "Requirements") -> RequirementConflict | None:
        """Return the conflict on the first shared key, by name, without common values."""
        small, large = (self, other) if len(self) < len(other) else (other, self)
        for key in sorted(key for key in small if key in large):
            mine, theirs = self[key], other[key]
            if mine.overlaps(theirs) or (mine.allows_absence and theirs.allows_absence):
                continue
            return RequirementConflict(key, theirs, mine)
        return None

    def find_conflict(
        self, required: "Requirements", *, allow_undefined: frozenset[str] = NO_VALUES
    ) -> RequirementConflict | None:
        """Return the conflict between these node requirements and ``required``, or None.

        The node side must define each required key, unless the key is in
        ``allow_undefined`` or its absence satisfies the requirement.
        """
        for key in sorted(required):
            requirement = required[key]
            if key in self or key in allow_undefined or requirement.allows_absence:
                continue
            return RequirementConflict(key, requirement, None)
        return self.find_disjoint_key(required)

    def to_specs(self) -> list[RequirementSpec]:
        return [spec for key in sorted(self) for spec in self[key].to_specs()]

    def __str__(self) -> str:
        shown = (str(self[key]) for key in sorted(self) if key != label_keys.HOSTNAME)
        return "; ".join(shown)


NO_REQUIREMENTS = Requirements()


def parse_integer(text: str) -> int | None:
    """Parse a label value like Kubernetes: ASCII digits within 64 bits, or None."""
    if _DIGITS.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -MAX_INT - 1 <= number <= MAX_INT else None


def _combine_bounds(best: Any, a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    return a if b is None else int(best(a, b))
