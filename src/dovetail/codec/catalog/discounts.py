"""Decoder of discount files (YAML); reports all errors with their lines."""

from collections.abc import Iterable
from itertools import count
from math import isfinite
from typing import Final

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.text.documents import ManifestReader
from dovetail.errors import InvalidInputError, ValidationError
from dovetail.model import labels as label_keys
from dovetail.model.cloud.discounts import (
    DiscountBook,
    DiscountScope,
    PercentageDiscount,
    ReservedInstances,
    SavingsPlan,
)

_SECTIONS: Final = ("discounts", "savingsPlans", "reservations")
_SCOPE_FIELDS: Final = ("families", "instanceTypes", "regions")
_CAPACITY_TYPES: Final = (label_keys.ON_DEMAND, label_keys.SPOT)
_MAX_USD_PER_HOUR: Final = 1_000_000
_MAX_INSTANCES: Final = 1_000_000


def read_discounts(file: str, data: bytes) -> DiscountBook:
    """Decode a discount file; raises ``InvalidInputError`` with all errors."""
    reader = ManifestReader()
    documents = list(reader.read_objects(file, data))
    errors = list(reader.errors)
    if len(documents) > 1:
        errors.append(ValidationError(file, 0, "", "contains several documents; a discount file is one"))
    if errors or not documents:
        raise InvalidInputError(errors)
    raw, context = documents[0], DecodeContext()
    book = _decode_book(Field(raw.value, context), file)
    errors = reader.locate(raw.error_at(path, message) for path, message in context.errors)
    if errors:
        raise InvalidInputError(sorted(errors, key=lambda error: error.line))
    return book


def _decode_book(root: Field, source: str) -> DiscountBook:
    _check_known_fields(root, _SECTIONS)
    if not any(root.has_value(section) for section in _SECTIONS):
        root.add_error(f"is empty; a discount file has {', '.join(_SECTIONS)}")
    percentages = tuple(_decode_percentage(item) for item in root["discounts"].items())
    plans = tuple(map(_decode_savings_plan, root["savingsPlans"].items(), count(1)))
    reservations = tuple(map(_decode_reserved_instances, root["reservations"].items(), count(1)))
    _check_unique_names(root["savingsPlans"], [plan.name for plan in plans])
    _check_unique_names(root["reservations"], [reservation.name for reservation in reservations])
    return DiscountBook(source=source, percentages=percentages, plans=plans, reservations=reservations)


def _decode_percentage(field: Field) -> PercentageDiscount:
    _check_known_fields(field, ("name", "percent", *_SCOPE_FIELDS, "capacityTypes"))
    return PercentageDiscount(
        name=field["name"].text(),
        percent=_decode_percent(field["percent"], maximum=100),
        scope=_decode_scope(field),
    )


def _decode_savings_plan(field: Field, number: int) -> SavingsPlan:
    _check_known_fields(field, ("name", "commitment", "percent", *_SCOPE_FIELDS))
    return SavingsPlan(
        name=field["name"].text() or f"savings plan {number}",
        commitment=_decode_usd_per_hour(field["commitment"]),
        # At 100 % an hour would use nothing of the commitment, which would never run out.
        percent=_decode_percent(field["percent"], maximum=99),
        scope=_decode_scope(field),
    )


def _decode_reserved_instances(field: Field, number: int) -> ReservedInstances:
    _check_known_fields(field, ("name", "instanceType", "count", "price", "region", "zone"))
    kind = field["instanceType"]
    if kind.check_required() and "." not in kind.text("."):
        kind.add_error(f"{kind.text()!r} is not an instance type; write it as in m7g.large")
    field["count"].check_required()
    return ReservedInstances(
        name=field["name"].text() or f"reservation {number}",
        instance_type=kind.text(),
        count=field["count"].integer(low=1, high=_MAX_INSTANCES) or 0,
        price=_decode_usd_per_hour(field["price"], zero_allowed=True),
        region=field["region"].text(),
        zone=field["zone"].text(),
    )


def _decode_scope(field: Field) -> DiscountScope:
    families = _decode_patterns(field["families"])
    for entry, family in zip(field["families"].items(), families, strict=True):
        if "." in family:
            entry.add_error(f"{family!r} is an instance type, no family; see instanceTypes")
    return DiscountScope(
        families=families,
        instance_types=_decode_patterns(field["instanceTypes"]),
        regions=_decode_patterns(field["regions"]),
        capacity_types=tuple(
            item.choice(_CAPACITY_TYPES, label_keys.ON_DEMAND, "capacity type that can be discounted")
            for item in field["capacityTypes"].items()
        ),
    )


def _decode_patterns(field: Field) -> tuple[str, ...]:
    if field and not field.value and isinstance(field.value, list):
        field.add_error("is empty; leave it out to mean all")
    patterns = field.texts()
    for entry, text in zip(field.items(), patterns, strict=True):
        if text != text.lower() or " " in text or not text:
            entry.add_error(f"{text!r} matches nothing; names are in lower case, * stands for any")
    return patterns


def _decode_percent(field: Field, *, maximum: int) -> float:
    if not field.check_required():
        return 0.0
    value = field.value
    if type(value) not in (int, float) or not isfinite(value):
        hint = f"; write {value.rstrip(' %')}" if isinstance(value, str) and "%" in value else ""
        field.add_error(f"{value!r} is not a percentage{hint}")
        return 0.0
    if not 1 <= value <= maximum:
        hint = f"; write {value * 100:g} for {value * 100:g} %" if 0 < value < 1 else ""
        field.add_error(f"{value} is not between 1 and {maximum}{hint}")
        return 0.0
    return float(value)


def _decode_usd_per_hour(field: Field, *, zero_allowed: bool = False) -> float:
    if not field.check_required():
        return 0.0
    value = field.value
    if type(value) not in (int, float) or not isfinite(value):
        field.add_error(f"{value!r} is not an amount; write USD per hour as in 12.5")
        return 0.0
    if not 0 <= value <= _MAX_USD_PER_HOUR or (value == 0 and not zero_allowed):
        field.add_error(f"{value} is not a plausible amount in USD per hour")
        return 0.0
    return float(value)


def _check_known_fields(field: Field, fields: Iterable[str]) -> None:
    """Add an error for every unknown field: an ignored discount costs money."""
    names = tuple(fields)
    field.check_known_keys(names)
    reported = {path for path, _ in field.context.errors}
    for entry in field.entries():
        if entry.key not in names and entry.path not in reported:
            entry.add_error(f"no such field; there are {', '.join(names)}")


def _check_unique_names(field: Field, names: list[str]) -> None:
    used_names: set[str] = set()
    for entry, name in zip(field.items(), names, strict=True):
        if name in used_names:
            entry["name"].add_error(f"duplicate name {name!r}; names identify entries in reports")
        used_names.add(name)
