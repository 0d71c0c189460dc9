"""Label and field selectors in the string form that list and watch take."""

import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Any

import msgspec

from dovetail.ports.kube_errors import BadRequest
from dovetail.simulator.apiserver.storage.frozen_object import look


class Ask(Enum):
    """What a label or field is asked."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    ABSENT = "absent"
    MORE = "gt"
    LESS = "lt"


class Term(msgspec.Struct, frozen=True, cache_hash=True):
    """One condition on one label."""

    key: str
    test: Ask
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.test:
            case Ask.IN:
                return value in self.values
            case Ask.NOT_IN:
                # As in Kubernetes, an object without the label passes.
                return value not in self.values
            case Ask.EXISTS:
                return value is not None
            case Ask.ABSENT:
                return value is None
        return _compares(value, self.test, self.values)


def _compares(value: str | None, test: Ask, bounds: frozenset[str]) -> bool:
    if value is None or not re.fullmatch(r"[+-]?[0-9]+", value):
        return False
    (bound,) = bounds
    return int(value) > int(bound) if test is Ask.MORE else int(value) < int(bound)


LabelTerms = tuple[Term, ...]
"""All must hold; none at all selects everything."""

_KEY = r"(?P<key>(?:[A-Za-z0-9][-A-Za-z0-9.]*/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)"
_VALUE = r"(?P<value>(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?)"
_SHAPES: tuple[tuple[re.Pattern[str], Ask], ...] = (
    (re.compile(rf"{_KEY}\s*(?:==|=)\s*{_VALUE}"), Ask.IN),
    (re.compile(rf"{_KEY}\s*!=\s*{_VALUE}"), Ask.NOT_IN),
    (re.compile(rf"{_KEY}\s+in\s*\((?P<set>[^()]*)\)"), Ask.IN),
    (re.compile(rf"{_KEY}\s+notin\s*\((?P<set>[^()]*)\)"), Ask.NOT_IN),
    (re.compile(rf"{_KEY}\s*>\s*(?P<value>[+-]?[0-9]+)"), Ask.MORE),
    (re.compile(rf"{_KEY}\s*<\s*(?P<value>[+-]?[0-9]+)"), Ask.LESS),
    (re.compile(rf"!\s*{_KEY}"), Ask.ABSENT),
    (re.compile(_KEY), Ask.EXISTS),
)
_LABEL_VALUE = re.compile(_VALUE)
_COMMA_OUTSIDE_SETS = re.compile(r",(?![^()]*\))")


@lru_cache(maxsize=4096)
def parse_labels(text: str) -> LabelTerms:
    """Read ``a=b,c!=d,e in (f,g),h notin (i),j,!k``; all terms must hold."""
    if not text.strip():
        return ()
    return tuple(_parse_term(part.strip()) for part in _COMMA_OUTSIDE_SETS.split(text))


def _parse_term(text: str) -> Term:
    for shape, test in _SHAPES:
        found = shape.fullmatch(text)
        if found is None:
            continue
        groups = found.groupdict()
        if "set" in groups:
            values = [one.strip() for one in groups["set"].split(",")]
            if not all(_LABEL_VALUE.fullmatch(one) for one in values):
                break
            return Term(groups["key"], test, frozenset(values))
        return Term(groups["key"], test, frozenset({groups["value"]} if "value" in groups else ()))
    raise BadRequest(f"unable to parse requirement: {text!r} is no label selector")


def labels_match(terms: LabelTerms, labels: Mapping[str, str] | None) -> bool:
    """Tell whether all terms hold for these labels."""
    return all(term.holds(labels or {}) for term in terms)


def terms_of(selector: Mapping[str, Any]) -> LabelTerms:
    """Return the terms of a LabelSelector object (matchLabels, matchExpressions)."""
    terms = [
        Term(key, Ask.IN, frozenset({value}))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    tests = {
        "In": Ask.IN, "NotIn": Ask.NOT_IN, "Exists": Ask.EXISTS, "DoesNotExist": Ask.ABSENT
    }  # fmt: skip
    for one in selector.get("matchExpressions") or ():
        terms.append(Term(one["key"], tests[one["operator"]], frozenset(one.get("values") or ())))
    return tuple(terms)


def selector_text(selector: Mapping[str, Any]) -> str:
    """Write a LabelSelector object in string form, as Scale's status does."""
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for one in selector.get("matchExpressions") or ():
        values = ",".join(sorted(one.get("values") or ()))
        spelled = {
            "In": f"{one['key']} in ({values})",
            "NotIn": f"{one['key']} notin ({values})",
            "Exists": one["key"],
            "DoesNotExist": f"!{one['key']}",
        }
        parts.append(spelled[one["operator"]])
    return ",".join(parts)


class FieldTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """One field that must, or must not, have a value."""

    field: str
    value: str
    equal: bool = True

    def holds(self, obj: Mapping[str, Any]) -> bool:
        return (field_text(obj, self.field) == self.value) is self.equal


FieldTerms = tuple[FieldTerm, ...]

SELECTABLE_FIELDS: dict[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "replicasets": ("status.replicas",),
    "jobs": ("status.successful",),
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "nodeclaims": (
        "status.nodeName",
        "status.providerID",
        "spec.nodeClassRef.group",
        "spec.nodeClassRef.kind",
        "spec.nodeClassRef.name",
    ),
    "nodepools": (
        "spec.template.spec.nodeClassRef.group",
        "spec.template.spec.nodeClassRef.kind",
        "spec.template.spec.nodeClassRef.name",
    ),
}
"""What can be selected by besides metadata.name and metadata.namespace, by plural."""

_FALSE_WHEN_UNSET = frozenset({"spec.unschedulable", "spec.hostNetwork"})


@lru_cache(maxsize=1024)
def _path(field: str) -> tuple[str, ...]:
    return tuple(field.split("."))


def field_text(obj: Mapping[str, Any], field: str) -> str:
    """Return a field as selectors see it; unset is the empty string."""
    value = look(obj, *_path(field))
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "false" if field in _FALSE_WHEN_UNSET else ""
    return str(value)


@lru_cache(maxsize=65536)
def parse_fields(text: str, plural: str) -> FieldTerms:
    """Read ``spec.nodeName=a,status.phase!=b`` for a kind of object."""
    terms = []
    known = ("metadata.name", "metadata.namespace", *SELECTABLE_FIELDS.get(plural, ()))
    for part in filter(None, (one.strip() for one in text.split(","))):
        found = re.fullmatch(r"([^!=]+?)\s*(==|=|!=)\s*(.*)", part)
        if found is None:
            raise BadRequest(f"invalid selector: {part!r}; can't understand it")
        field, sign, value = found.groups()
        if field not in known:
            raise BadRequest(f'field label not supported for {plural}: "{field}"')
        terms.append(FieldTerm(field, value, equal=sign != "!="))
    return tuple(terms)


class Selection(msgspec.Struct, frozen=True):
    """Which objects of a kind a list or watch is about."""

    namespace: str = ""
    labels: LabelTerms = ()
    fields: FieldTerms = ()

    def matches(self, obj: Mapping[str, Any]) -> bool:
        meta = obj["metadata"]
        if self.namespace and meta.get("namespace") != self.namespace:
            return False
        for field in self.fields:
            if not field.holds(obj):
                return False
        if self.labels:
            labels = meta.get("labels") or {}
            for term in self.labels:
                if not term.holds(labels):
                    return False
        return True

    def value_of(self, field: str) -> str | None:
        """Return the one value a field must have, when the selection fixes it."""
        for term in self.fields:
            if term.field == field and term.equal:
                return term.value
        return None
