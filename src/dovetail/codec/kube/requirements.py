"""Decoders and encoders of requirements, selectors, taints and tolerations."""

from typing import Any

from dovetail.codec.fields import Field, drop_empty
from dovetail.codec.kube import label_validation
from dovetail.codec.text.suggestions import pluralize, suggest
from dovetail.model.kube.requirements import NUMERIC_OPERATORS, Operator, RequirementSpec
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.taints import Taint, TaintEffect, Toleration

SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
NODE_OPERATORS = (*SELECTOR_OPERATORS, "Gt", "Lt")
NODEPOOL_OPERATORS = tuple(Operator)
MAX_MIN_VALUES = 50
MAX_VALUES = 4096
"""Values of one requirement; EC2 has a third of that in instance types."""
_OPERATOR_SYNONYMS = {
    "=": "In",
    "==": "In",
    "eq": "In",
    "equals": "In",
    "equal": "In",
    "!=": "NotIn",
    "ne": "NotIn",
    ">": "Gt",
    ">=": "Gte",
    "<": "Lt",
    "<=": "Lte",
    "ge": "Gte",
    "le": "Lte",
    "notexists": "DoesNotExist",
    "absent": "DoesNotExist",
}
_VALUELESS_OPERATORS = (Operator.EXISTS, Operator.DOES_NOT_EXIST)
SET_OPERATORS = (Operator.IN, Operator.NOT_IN)


def decode_requirement(field: Field, operators: tuple[str, ...]) -> RequirementSpec | None:
    """Decode ``{key, operator, values}``; None, with errors added, if it is invalid."""
    before = len(field.context.errors)
    if field.context.strict:
        field.check_known_keys(("key", "operator", "values", "minValues"))
    key = field.context.share_text(field["key"].text())
    if field["key"].check_required():
        label_validation.check_key(field["key"], key)
        label_validation.note_old_label(field["key"], key)
    operator = _decode_operator(field["operator"], operators)
    values = _decode_values(field["values"], operator)
    min_values = field["minValues"].integer(low=1, high=MAX_MIN_VALUES)
    if operator is None:
        _check_well_known_values(field, key, values)  # Independent of the operator.
        return None
    if len(field.context.errors) > before:
        return None
    _check_values(field, key, operator, values)
    _check_min_values(field, operator, values, min_values)
    if len(field.context.errors) > before:
        return None
    read: RequirementSpec = field.context.intern(RequirementSpec(key, operator, values, min_values))
    return read


def decode_requirements(
    field: Field, operators: tuple[str, ...] = NODE_OPERATORS
) -> tuple[RequirementSpec, ...]:
    """Decode a list of requirements; invalid ones are left out."""
    if field.value is None:
        return ()
    read = (decode_requirement(item, operators) for item in field.items())
    return tuple(spec for spec in read if spec is not None)


def _decode_operator(field: Field, operators: tuple[str, ...]) -> Operator | None:
    if not field.check_required():
        return None
    word = field.text()
    if word in operators:
        return Operator(word)
    meant = _OPERATOR_SYNONYMS.get(word.lower())
    hint = f"; did you mean {meant!r}?" if meant in operators else suggest(word, operators)
    field.add_error(f"{word!r} is not an operator{hint}")
    return None


def _decode_values(field: Field, operator: Operator | None) -> tuple[str, ...]:
    """Decode the values; an integer after Gt may be written without quotes."""
    if isinstance(field.value, str):
        field.add_error(f"must be a list; write it as [{field.value!r}]")
        return ()
    read = []
    for item in field.items():
        if operator in NUMERIC_OPERATORS and type(item.value) is int:
            read.append(str(item.value))
        elif item.value is None:
            item.add_error("is missing; write '' for a label without value")
        else:
            read.append(field.context.share_text(item.text()))
    return tuple(read)


def _check_values(field: Field, key: str, operator: Operator, values: tuple[str, ...]) -> None:
    entry = field["values"]
    if operator in SET_OPERATORS and not values:
        entry.add_error(f"{operator} needs at least one value")
    elif operator in _VALUELESS_OPERATORS and values and not field.context.api_rules_only:
        entry.add_error(f"{operator} takes no values")
    elif operator in NUMERIC_OPERATORS:
        good = len(values) == 1 and values[0].isascii() and values[0].isdigit()
        if not good or len(values[0]) > 18:
            entry.add_error(f'{operator} needs exactly one whole number, as in ["4"]')
        return
    _check_well_known_values(field, key, values)


def _check_well_known_values(field: Field, key: str, values: tuple[str, ...]) -> None:
    if not field.context.strict:
        return
    entry = field["values"]
    for index, value in enumerate(values):
        item = Field(value, field.context, entry, index)
        if label_validation.check_value(item, value):
            label_validation.check_well_known_value(entry if len(values) == 1 else item, key, value)


def _check_min_values(
    field: Field, operator: Operator, values: tuple[str, ...], min_values: int | None
) -> None:
    if min_values is not None and operator is Operator.IN and len(set(values)) < min_values:
        field["minValues"].add_error(f"is {min_values}, with only {pluralize(len(set(values)), 'value')}")


def encode_requirement(spec: RequirementSpec) -> dict[str, Any]:
    """Encode a requirement."""
    encoded: dict[str, Any] = {"key": spec.key, "operator": str(spec.operator)}
    if spec.values:
        encoded["values"] = list(spec.values)
    if spec.min_values is not None:
        encoded["minValues"] = spec.min_values
    return encoded


def decode_selector(field: Field) -> LabelSelector | None:
    """Decode a label selector; None, which selects nothing, if it is absent."""
    if not field:
        return None
    field.check_known_keys(("matchLabels", "matchExpressions"))
    read: LabelSelector = field.context.intern(
        LabelSelector(
            field["matchLabels"].labels(), decode_requirements(field["matchExpressions"], SELECTOR_OPERATORS)
        )
    )
    return read


def encode_selector(selector: LabelSelector) -> dict[str, Any]:
    """Encode a label selector."""
    expressions = [encode_requirement(expression) for expression in selector.expressions]
    return drop_empty({"matchLabels": dict(selector.match_labels), "matchExpressions": expressions})


def decode_taint(field: Field) -> Taint | None:
    """Decode a taint; None if it is invalid."""
    field.check_known_keys(("key", "value", "effect", "timeAdded"))
    effect = field["effect"]
    if not field["key"].check_required() or not effect.check_required():
        return None
    if not label_validation.check_key(field["key"], field["key"].text()):
        return None
    if effect.text() not in tuple(TaintEffect):
        effect.add_error(f"{effect.text()!r} is not an effect{suggest(effect.text(), list(TaintEffect))}")
        return None
    value = field["value"].text()
    if not label_validation.check_value(field["value"], value):
        return None
    return Taint(field["key"].text(), TaintEffect(effect.text()), value)


def decode_taints(field: Field) -> tuple[Taint, ...]:
    """Decode a list of taints; invalid ones are left out."""
    if field.value is None:
        return ()
    read = (decode_taint(item) for item in field.items())
    return tuple(taint for taint in read if taint is not None)


def encode_taint(taint: Taint) -> dict[str, Any]:
    """Encode a taint."""
    return drop_empty({"key": taint.key, "value": taint.value, "effect": str(taint.effect)})


def decode_toleration(field: Field) -> Toleration | None:
    """Decode a toleration; None if it is invalid."""
    field.check_known_keys(("key", "operator", "value", "effect", "tolerationSeconds"))
    key, value = field["key"].text(), field["value"].text()
    operator = field["operator"].choice(("Equal", "Exists", "Lt", "Gt"), "Equal", "operator of a toleration")
    effect = field["effect"].text()
    if effect and effect not in tuple(TaintEffect):
        field["effect"].add_error(f"{effect!r} is not an effect{suggest(effect, list(TaintEffect))}")
        return None
    if operator == "Exists" and value:
        field["value"].add_error("Exists takes no value")
    if not key and operator != "Exists":
        field["key"].add_error("is required unless the operator is Exists")
    read = Toleration(key, operator, value, TaintEffect(effect) if effect else None)
    shared: Toleration = field.context.intern(read)
    return shared


def decode_tolerations(field: Field) -> tuple[Toleration, ...]:
    """Decode a list of tolerations; invalid ones are left out."""
    if not field.value:
        return ()
    read = (decode_toleration(item) for item in field.items())
    return tuple(toleration for toleration in read if toleration is not None)


def encode_toleration(toleration: Toleration) -> dict[str, Any]:
    """Encode a toleration."""
    return drop_empty(
        {
            "key": toleration.key,
            "operator": toleration.operator if toleration.operator != "Equal" else "",
            "value": toleration.value,
            "effect": str(toleration.effect) if toleration.effect else "",
        }
    )
