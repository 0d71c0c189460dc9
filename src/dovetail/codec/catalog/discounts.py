"""Discount books from YAML; every mistake at once, with its line."""

from collections.abc import Iterable
from math import isfinite
from typing import Final

from dovetail.codec.fields import Field, Findings
from dovetail.codec.text.documents import Files, Misplaced
from dovetail.errors import BadInput, Mistake
from dovetail.model import labels as label_keys
from dovetail.model.cloud.discounts import (
    DiscountBook,
    Percentage,
    ReservedInstances,
    SavingsPlan,
    Scope,
)

_SECTIONS: Final = ("discounts", "savingsPlans", "reservations")
_MACHINES: Final = ("families", "instanceTypes", "regions")
_SOLD_AS: Final = (label_keys.ON_DEMAND, label_keys.SPOT)
_MOST_PER_HOUR: Final = 1_000_000
_MOST_INSTANCES: Final = 1_000_000


def read_discounts(file: str, data: bytes) -> DiscountBook:
    """Read a discount book; raises ``BadInput`` with all that is wrong with it."""
    files = Files()
    documents = list(files.objects(file, data))
    mistakes = list(files.mistakes)
    if len(documents) > 1:
        mistakes.append(Mistake(file, 0, "", "holds several documents; a discount book is one"))
    if mistakes or not documents:
        raise BadInput(mistakes)
    raw, findings = documents[0], Findings()
    book = _book(Field(raw.value, findings), file)
    placed = files.placed(
        Misplaced(raw.file, raw.document, raw.path + path, message)
        for path, message in findings.found
    )
    if placed:
        raise BadInput(sorted(placed, key=lambda one: one.line))
    return book


def _book(root: Field, source: str) -> DiscountBook:
    _only(root, _SECTIONS)
    if not any(root.says(section) for section in _SECTIONS):
        root.mistake(f"says nothing; a discount book has {', '.join(_SECTIONS)}")
    percentages = tuple(_percentage(one) for one in root["discounts"].items())
    plans = tuple(_plan(one, number) for number, one in _numbered(root["savingsPlans"]))
    slots = tuple(_reserved(one, number) for number, one in _numbered(root["reservations"]))
    _distinct(root["savingsPlans"], [one.name for one in plans])
    _distinct(root["reservations"], [one.name for one in slots])
    return DiscountBook(
        source=source,
        percentages=percentages,
        plans=plans,
        reservations=slots,
    )


def _percentage(field: Field) -> Percentage:
    _only(field, ("name", "percent", *_MACHINES, "capacityTypes"))
    return Percentage(
        name=field["name"].text(),
        percent=_percent(field["percent"], most=100),
        scope=_scope(field),
    )


def _plan(field: Field, number: int) -> SavingsPlan:
    _only(field, ("name", "commitment", "percent", *_MACHINES))
    return SavingsPlan(
        name=field["name"].text() or f"savings plan {number}",
        commitment=_dollars(field["commitment"]),
        # Nothing is for nothing: a plan's rate must use something of its commitment.
        percent=_percent(field["percent"], most=99),
        scope=_scope(field),
    )


def _reserved(field: Field, number: int) -> ReservedInstances:
    _only(field, ("name", "instanceType", "count", "price", "region", "zone"))
    kind = field["instanceType"]
    if kind.required() and "." not in kind.text("."):
        kind.mistake(f"{kind.text()!r} is no instance type; write it as in m7g.large")
    field["count"].required()
    return ReservedInstances(
        name=field["name"].text() or f"reservation {number}",
        instance_type=kind.text(),
        count=field["count"].whole(low=1, high=_MOST_INSTANCES) or 0,
        price=_dollars(field["price"], zero_allowed=True),
        region=field["region"].text(),
        zone=field["zone"].text(),
    )


def _scope(field: Field) -> Scope:
    families = _patterns(field["families"])
    for entry, family in zip(field["families"].items(), families, strict=True):
        if "." in family:
            entry.mistake(f"{family!r} is an instance type, no family; see instanceTypes")
    return Scope(
        families=families,
        instance_types=_patterns(field["instanceTypes"]),
        regions=_patterns(field["regions"]),
        capacity_types=tuple(
            one.choice(_SOLD_AS, label_keys.ON_DEMAND, "capacity type that can be discounted")
            for one in field["capacityTypes"].items()
        ),
    )


def _patterns(field: Field) -> tuple[str, ...]:
    if field and not field.value and isinstance(field.value, list):
        field.mistake("is empty; leave it out to mean all")
    read = field.texts()
    for entry, text in zip(field.items(), read, strict=True):
        if text != text.lower() or " " in text or not text:
            entry.mistake(f"{text!r} matches nothing; names are in lower case, * stands for any")
    return read


def _percent(field: Field, *, most: int) -> float:
    if not field.required():
        return 0.0
    value = field.value
    if type(value) not in (int, float) or not isfinite(value):
        hint = f"; write {value.rstrip(' %')}" if isinstance(value, str) and "%" in value else ""
        field.mistake(f"{value!r} is no number of percent{hint}")
        return 0.0
    if not 1 <= value <= most:
        share = f"; write {value * 100:g} for {value * 100:g} %" if 0 < value < 1 else ""
        field.mistake(f"{value} is not between 1 and {most}{share}")
        return 0.0
    return float(value)


def _dollars(field: Field, *, zero_allowed: bool = False) -> float:
    if not field.required():
        return 0.0
    value = field.value
    if type(value) not in (int, float) or not isfinite(value):
        field.mistake(f"{value!r} is no amount; write USD per hour as in 12.5")
        return 0.0
    if not 0 <= value <= _MOST_PER_HOUR or (value == 0 and not zero_allowed):
        field.mistake(f"{value} is no amount in USD per hour that anybody pays")
        return 0.0
    return float(value)


def _only(field: Field, known: Iterable[str]) -> None:
    """Note every field that has no meaning here: a discount that is not seen costs money."""
    names = tuple(known)
    field.known_keys(names)
    told = {path for path, _ in field.findings.found}
    for entry in field.entries():
        if entry.key not in names and entry.path not in told:
            entry.mistake(f"no such field; there are {', '.join(names)}")


def _distinct(field: Field, names: list[str]) -> None:
    seen: set[str] = set()
    for entry, name in zip(field.items(), names, strict=True):
        if name in seen:
            entry["name"].mistake(f"{name!r} is there twice; names tell them apart in reports")
        seen.add(name)


def _numbered(field: Field) -> Iterable[tuple[int, Field]]:
    return enumerate(field.items(), start=1)
