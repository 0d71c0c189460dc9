"""The algebra of requirements: which label values a thing allows.

A requirement is a set of strings, written down or written as a complement,
with optional inclusive integer bounds. Node side and pod side are not
symmetric: see ``Requirements.why_incompatible``.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict


class Operator(StrEnum):
    """The eight operators; Gte and Lte are for NodePools and claims only."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"
    GTE = "Gte"
    LTE = "Lte"


NUMERIC = frozenset({Operator.GT, Operator.LT, Operator.GTE, Operator.LTE})
NO_VALUES: frozenset[str] = frozenset()
MAX_INT = 2**63 - 1
_DIGITS = re.compile(r"[+-]?[0-9]{1,64}")


class RequirementSpec(msgspec.Struct, frozen=True, cache_hash=True):
    """One entry as a user wrote it."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    min_values: int | None = None


class Requirement(msgspec.Struct, frozen=True, cache_hash=True):
    """The values allowed for one key."""

    key: str
    complement: bool
    values: frozenset[str] = NO_VALUES
    gte: int | None = None
    lte: int | None = None
    min_values: int | None = None
    present: bool = False
    """The label must be there, although the operator alone would not say so.

    Set on what is left of ``Exists ∩ NotIn [a]`` or ``In [a] ∩ In [b]``; without
    it a node that lacks the label would pass for one that has it.
    """

    @staticmethod
    def of(spec: RequirementSpec) -> "Requirement":
        """Read an entry; the key is brought to its stable spelling."""
        key, operator, low = label_keys.stable_key(spec.key), spec.operator, spec.min_values
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
                return Requirement(key, False, min_values=low, present=True)
            return Requirement(key, True, gte=gte, min_values=low)
        return Requirement(key, True, lte=bound - (operator is Operator.LT), min_values=low)

    @staticmethod
    def one_of(key: str, *values: str) -> "Requirement":
        return Requirement(key, False, frozenset(values))

    @staticmethod
    def exists(key: str) -> "Requirement":
        return Requirement(key, True)

    @staticmethod
    def absent(key: str) -> "Requirement":
        return Requirement(key, False)

    @property
    def operator(self) -> Operator:
        """The operator it amounts to; bounds do not show in it."""
        if self.complement:
            return Operator.NOT_IN if self.values else Operator.EXISTS
        return Operator.IN if self.values else Operator.DOES_NOT_EXIST

    @property
    def tolerates_absence(self) -> bool:
        """Tell whether a thing without this label satisfies it."""
        if self.present or self.gte is not None or self.lte is not None:
            return False
        return self.operator in (Operator.NOT_IN, Operator.DOES_NOT_EXIST)

    def has(self, value: str) -> bool:
        return (value in self.values) != self.complement and self._within(value)

    def _within(self, value: str) -> bool:
        if self.gte is None and self.lte is None:
            return True
        number = whole_number(value)
        if number is None:
            return False
        return (self.gte is None or number >= self.gte) and (self.lte is None or number <= self.lte)

    def intersection(self, other: "Requirement") -> "Requirement":
        """Return what both allow; the larger minValues survives."""
        gte = _pick(max, self.gte, other.gte)
        lte = _pick(min, self.lte, other.lte)
        low = _pick(max, self.min_values, other.min_values)
        present = not (self.tolerates_absence and other.tolerates_absence)
        if gte is not None and lte is not None and gte > lte:
            return Requirement(self.key, False, min_values=low, present=True)
        if self.complement and other.complement:
            bounded = Requirement(self.key, True, gte=gte, lte=lte)
            excluded = frozenset(v for v in self.values | other.values if bounded._within(v))
            # Bounds and a bare Exists ask for the label by themselves.
            told = gte is not None or lte is not None or not excluded
            return Requirement(self.key, True, excluded, gte, lte, low, present and not told)
        if self.complement:
            allowed = other.values - self.values
        elif other.complement:
            allowed = self.values - other.values
        else:
            allowed = self.values & other.values
        if gte is not None or lte is not None:
            bounded = Requirement(self.key, True, gte=gte, lte=lte)
            allowed = frozenset(v for v in allowed if bounded._within(v))
        return Requirement(
            self.key, False, allowed, min_values=low, present=present and not allowed
        )

    def overlaps(self, other: "Requirement") -> bool:
        """Tell whether some value satisfies both."""
        both = self.intersection(other)
        return both.complement or bool(both.values)

    def specs(self) -> list[RequirementSpec]:
        """Write it as NodeClaim entries; two when it has two bounds.

        Excluded values are kept beside bounds (upstream loses them).
        """
        low, written = self.min_values, []
        if self.gte is not None:
            written.append(RequirementSpec(self.key, Operator.GTE, (str(self.gte),), low))
        if self.lte is not None:
            written.append(RequirementSpec(self.key, Operator.LTE, (str(self.lte),), low))
        if not written or self.values:
            values = tuple(sorted(self.values))
            written.append(RequirementSpec(self.key, self.operator, values, low))
        if self.present:
            written.append(RequirementSpec(self.key, Operator.EXISTS, (), low))
        return written

    def __str__(self) -> str:
        if self.present and not self.complement:
            return f"{self.key} with no value left (its demands exclude each other)"
        shown = sorted(self.values)
        text = ", ".join(shown[:5]) + (f" and {len(shown) - 5} others" if len(shown) > 5 else "")
        parts = []
        if self.gte is not None:
            parts.append(f"{self.key} >= {self.gte}")
        if self.lte is not None:
            parts.append(f"{self.key} <= {self.lte}")
        if not parts or self.values:
            operator = self.operator
            bare = operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST)
            parts.append(f"{self.key} {operator}" if bare else f"{self.key} {operator} [{text}]")
        if self.present:
            parts.append(f"{self.key} {Operator.EXISTS}")
        return ", ".join(parts)


class Conflict(msgspec.Struct, frozen=True):
    """Why two requirement sets do not go together."""

    key: str
    wanted: Requirement
    offered: Requirement | None
    """None: the node side does not know the key at all."""

    def __str__(self) -> str:
        if self.offered is None:
            meant = label_keys.similar_key(self.key)
            hint = f"; did you mean {meant!r}?" if meant else ""
            return f"label {self.key!r} is not known on the node side{hint}"
        return f"{self.wanted} does not go with {self.offered}"


class Requirements(FrozenDict[str, Requirement]):
    """Requirements on several keys; a key that is missing allows anything."""

    __slots__ = ()

    @classmethod
    def of(cls, many: Iterable[Requirement]) -> "Requirements":
        """Collect requirements; several on one key are intersected."""
        merged: dict[str, Requirement] = {}
        for one in many:
            known = merged.get(one.key)
            merged[one.key] = one if known is None else known.intersection(one)
        return cls(merged)

    @classmethod
    def of_specs(cls, specs: Iterable[RequirementSpec]) -> "Requirements":
        return cls.of(Requirement.of(spec) for spec in specs)

    @classmethod
    def of_labels(cls, labels: Mapping[str, str]) -> "Requirements":
        return cls.of(
            Requirement.one_of(label_keys.stable_key(key), value) for key, value in labels.items()
        )

    def and_also(self, more: Iterable[Requirement]) -> "Requirements":
        """Return the intersection with ``more``."""
        return Requirements.of([*self.values(), *more])

    def without(self, *keys: str) -> "Requirements":
        return Requirements({key: one for key, one in self.items() if key not in keys})

    def allowed(self, key: str) -> Requirement:
        """Return the requirement on ``key``; anything goes where there is none."""
        known = self.get(key)
        return Requirement.exists(key) if known is None else known

    def clash(self, other: "Requirements") -> Conflict | None:
        """Return the first shared key (by name) on which the two have nothing in common."""
        small, large = (self, other) if len(self) < len(other) else (other, self)
        for key in sorted(key for key in small if key in large):
            mine, theirs = self[key], other[key]
            if mine.overlaps(theirs) or (mine.tolerates_absence and theirs.tolerates_absence):
                continue
            return Conflict(key, theirs, mine)
        return None

    def why_incompatible(
        self, wanted: "Requirements", *, undefined_ok: frozenset[str] = NO_VALUES
    ) -> Conflict | None:
        """Return why a node with these requirements cannot serve ``wanted``, or None.

        The node side must know each key that is wanted, unless the key is in
        ``undefined_ok`` or its absence satisfies the request.
        """
        for key in sorted(wanted):
            one = wanted[key]
            if key not in self and key not in undefined_ok and not one.tolerates_absence:
                return Conflict(key, one, None)
        return self.clash(wanted)

    def specs(self) -> list[RequirementSpec]:
        return [spec for key in sorted(self) for spec in self[key].specs()]

    def __str__(self) -> str:
        shown = (str(self[key]) for key in sorted(self) if key != label_keys.HOSTNAME)
        return "; ".join(shown)


ANYTHING = Requirements()


def whole_number(text: str) -> int | None:
    """Read a label value as Kubernetes does: ASCII digits within 64 bits, or None."""
    if _DIGITS.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -MAX_INT - 1 <= number <= MAX_INT else None


def _pick(best: Any, a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    return a if b is None else int(best(a, b))
