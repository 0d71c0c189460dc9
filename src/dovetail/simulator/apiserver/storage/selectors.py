"""Label and field selectors of lists and watches, in string and object form."""

import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Final

import msgspec

from dovetail.ports.kube_errors import BadRequest


class Operator(Enum):
    """Operator of a label requirement."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "absent"
    GREATER_THAN = "gt"
    LESS_THAN = "lt"


class Requirement(msgspec.Struct, frozen=True, cache_hash=True):
    """A condition on one label."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                # As in Kubernetes, an object without the label passes.
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
        return _compare(value, self.operator, self.values)


def _compare(value: str | None, operator: Operator, bounds: frozenset[str]) -> bool:
    if value is None or not re.fullmatch(r"[+-]?[0-9]+", value):
        return False
    (bound,) = bounds
    if operator is Operator.GREATER_THAN:
        return int(value) > int(bound)
    return int(value) < int(bound)


LabelSelector = tuple[Requirement, ...]
"""All requirements must match; an empty selector matches everything."""

_KEY = r"(?P<key>(?:[A-Za-z0-9][-A-Za-z0-9.]*/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)"
_VALUE = r"(?P<value>(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?)"
_SYNTAX: tuple[tuple[re.Pattern[str], Operator], ...] = (
    (re.compile(rf"{_KEY}\s*(?:==|=)\s*{_VALUE}"), Operator.IN),
    (re.compile(rf"{_KEY}\s*!=\s*{_VALUE}"), Operator.NOT_IN),
    (re.compile(rf"{_KEY}\s+in\s*\((?P<set>[^()]*)\)"), Operator.IN),
    (re.compile(rf"{_KEY}\s+notin\s*\((?P<set>[^()]*)\)"), Operator.NOT_IN),
    (re.compile(rf"{_KEY}\s*>\s*(?P<value>[+-]?[0-9]+)"), Operator.GREATER_THAN),
    (re.compile(rf"{_KEY}\s*<\s*(?P<value>[+-]?[0-9]+)"), Operator.LESS_THAN),
    (re.compile(rf"!\s*{_KEY}"), Operator.DOES_NOT_EXIST),
    (re.compile(_KEY), Operator.EXISTS),
)
_LABEL_VALUE = re.compile(_VALUE)
_COMMA_OUTSIDE_SETS = re.compile(r",(?![^()]*\))")


@lru_cache(maxsize=4096)
def parse_label_selector(text: str) -> LabelSelector:
    """Parse ``a=b,c!=d,e in (f,g),h notin (i),j,!k``."""
    if not text.strip():
        return ()
    return tuple(_parse_requirement(part.strip()) for part in _COMMA_OUTSIDE_SETS.split(text))


def _parse_requirement(text: str) -> Requirement:
    for pattern, operator in _SYNTAX:
        match = pattern.fullmatch(text)
        if match is None:
            continue
        groups = match.groupdict()
        if "set" in groups:
            values = [value.strip() for value in groups["set"].split(",")]
            if not all(_LABEL_VALUE.fullmatch(value) for value in values):
                break
            return Requirement(groups["key"], operator, frozenset(values))
        value_set = frozenset({groups["value"]} if "value" in groups else ())
        return Requirement(groups["key"], operator, value_set)
    raise BadRequest(f"unable to parse requirement: {text!r} is not a label selector")


def labels_match(selector: LabelSelector, labels: Mapping[str, str] | None) -> bool:
    """Return True if labels match all requirements of a selector."""
    return all(requirement.matches(labels or {}) for requirement in selector)


_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}


def decode_label_selector(selector: Mapping[str, Any]) -> LabelSelector:
    """Decode a LabelSelector object (matchLabels, matchExpressions); raise BadRequest if it is invalid."""
    requirements = [
        Requirement(key, Operator.IN, frozenset({value}))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for expression in selector.get("matchExpressions") or ():
        operator = _OPERATORS.get(expression.get("operator"))
        if operator is None:
            raise BadRequest(f"{expression.get('operator')!r} is not a valid label selector operator")
        values = frozenset(expression.get("values") or ())
        requirements.append(Requirement(expression.get("key") or "", operator, values))
    return tuple(requirements)


def format_label_selector(selector: Mapping[str, Any]) -> str:
    """Return a LabelSelector object in string form, as in the status of a Scale."""
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or ():
        key = expression["key"]
        values = ",".join(sorted(expression.get("values") or ()))
        by_operator = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append(by_operator[expression["operator"]])
    return ",".join(parts)


class FieldRequirement(msgspec.Struct, frozen=True, cache_hash=True):
    """A condition on one field: equal or not equal to a value."""

    field: str
    value: str
    equal: bool = True

    def matches(self, obj: Mapping[str, Any]) -> bool:
        return (field_value(obj, self.field) == self.value) is self.equal


FieldSelector = tuple[FieldRequirement, ...]

_SELECTABLE_FIELDS: Final = {
    "pods": "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork"
    " status.phase status.podIP status.nominatedNodeName",
    "nodes": "spec.unschedulable",
    "namespaces": "status.phase",
    "replicasets": "status.replicas",
    "jobs": "status.successful",
    "events": "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid"
    " involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath"
    " reason reportingComponent source type",
    "nodeclaims": "status.nodeName status.providerID"
    " spec.nodeClassRef.group spec.nodeClassRef.kind spec.nodeClassRef.name",
    "nodepools": "spec.template.spec.nodeClassRef.group spec.template.spec.nodeClassRef.kind"
    " spec.template.spec.nodeClassRef.name",
}
SELECTABLE_FIELDS: Final = {plural: tuple(fields.split()) for plural, fields in _SELECTABLE_FIELDS.items()}
"""Selectable fields by plural, in addition to metadata.name and metadata.namespace."""

_FALSE_WHEN_UNSET = frozenset({"spec.unschedulable", "spec.hostNetwork"})


@lru_cache(maxsize=1024)
def _path(field: str) -> tuple[str, ...]:
    return tuple(field.split("."))


def field_value(obj: Mapping[str, Any], field: str) -> str:
    """Return a field as a field selector sees it; an unset field is the empty string."""
    value: Any = obj
    for name in _path(field):
        value = value.get(name) if isinstance(value, dict) else None
    if type(value) is str:
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "false" if field in _FALSE_WHEN_UNSET else ""
    return str(value)


@lru_cache(maxsize=1024)
def parse_field_selector(text: str, plural: str, custom: tuple[str, ...] = ()) -> FieldSelector:
    """Parse ``spec.nodeName=a,status.phase!=b`` for a resource.

    ``custom``: the selectable fields of its CustomResourceDefinition.
    """
    requirements = []
    selectable = ("metadata.name", "metadata.namespace", *SELECTABLE_FIELDS.get(plural, ()), *custom)
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"([^!=]+?)\s*(==|=|!=)\s*(.*)", part)
        if match is None:
            raise BadRequest(f"invalid selector: {part!r}; can't understand it")
        field, operator, value = match.groups()
        if field not in selectable:
            raise BadRequest(f'field label not supported for {plural}: "{field}"')
        requirements.append(FieldRequirement(field, value, equal=operator != "!="))
    return tuple(requirements)


class SelectionPredicate(msgspec.Struct, frozen=True):
    """Namespace, label selector and field selector of a list or watch."""

    namespace: str = ""
    labels: LabelSelector = ()
    fields: FieldSelector = ()

    def matches(self, obj: Mapping[str, Any]) -> bool:
        meta = obj["metadata"]
        if self.namespace and meta.get("namespace") != self.namespace:
            return False
        for field in self.fields:
            if not field.matches(obj):
                return False
        if self.labels:
            labels = meta.get("labels") or {}
            for requirement in self.labels:
                if not requirement.matches(labels):
                    return False
        return True

    def exact_match(self, field: str) -> str | None:
        """Return the value that a field must have; None if any value may match."""
        for requirement in self.fields:
            if requirement.field == field and requirement.equal:
                return requirement.value
        return None
