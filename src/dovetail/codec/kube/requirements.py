"""Requirements, selectors, taints and tolerations on the wire."""

from typing import Any

from dovetail.codec.fields import Field
from dovetail.codec.kube import label_validation
from dovetail.codec.text.suggestions import did_you_mean
from dovetail.model.kube.requirements import NUMERIC, Operator, RequirementSpec
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.taints import Effect, Taint, Toleration

SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
NODE_OPERATORS = (*SELECTOR_OPERATORS, "Gt", "Lt")
POOL_OPERATORS = tuple(Operator)
MOST_MIN_VALUES = 50
MOST_VALUES = 4096
"""Of one requirement of a pool or claim; EC2 has a third of that in instance types."""
_OTHER_SPELLINGS = {
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
_BARE = (Operator.EXISTS, Operator.DOES_NOT_EXIST)
VALUED = (Operator.IN, Operator.NOT_IN)


def requirement(field: Field, operators: tuple[str, ...]) -> RequirementSpec | None:
    """Read ``{key, operator, values}``; None, with mistakes noted, when it is wrong."""
    before = len(field.findings.found)
    if field.findings.written_by_hand:
        field.known_keys(("key", "operator", "values", "minValues"))
    key = field["key"].text()
    if field["key"].required():
        label_validation.check_key(field["key"], key)
    operator = _operator(field["operator"], operators)
    values = _values(field["values"], operator)
    least = field["minValues"].whole(low=1, high=MOST_MIN_VALUES)
    if operator is None:
        _check_meanings(field, key, values)  # What they mean does not hang on the operator.
        return None
    if len(field.findings.found) > before:
        return None
    _check_values(field, key, operator, values)
    _check_least(field, operator, values, least)
    if len(field.findings.found) > before:
        return None
    read: RequirementSpec = field.findings.shared(RequirementSpec(key, operator, values, least))
    return read


def requirements(
    field: Field, operators: tuple[str, ...] = NODE_OPERATORS
) -> tuple[RequirementSpec, ...]:
    """Read a list of them, leaving out those that are wrong."""
    if field.value is None:
        return ()
    read = (requirement(one, operators) for one in field.items())
    return tuple(one for one in read if one is not None)


def _operator(field: Field, operators: tuple[str, ...]) -> Operator | None:
    if not field.required():
        return None
    word = field.text()
    if word in operators:
        return Operator(word)
    meant = _OTHER_SPELLINGS.get(word.lower())
    hint = f"; did you mean {meant!r}?" if meant in operators else did_you_mean(word, operators)
    field.mistake(f"{word!r} is no operator{hint}")
    return None


def _values(field: Field, operator: Operator | None) -> tuple[str, ...]:
    """Read the values; a number after Gt may be written without quotes."""
    if isinstance(field.value, str):
        field.mistake(f"must be a list; write it as [{field.value!r}]")
        return ()
    read = []
    for one in field.items():
        if operator in NUMERIC and type(one.value) is int:
            read.append(str(one.value))
        elif one.value is None:
            one.mistake("is missing; write '' for a label without value")
        else:
            read.append(one.text())
    return tuple(read)


def _check_values(field: Field, key: str, operator: Operator, values: tuple[str, ...]) -> None:
    spot = field["values"]
    if operator in VALUED and not values:
        spot.mistake(f"{operator} needs at least one value")
    elif operator in _BARE and values and not field.findings.by_the_letter:
        spot.mistake(f"{operator} takes no values")
    elif operator in NUMERIC:
        good = len(values) == 1 and values[0].isascii() and values[0].isdigit()
        if not good or len(values[0]) > 18:
            spot.mistake(f'{operator} needs exactly one whole number, as in ["4"]')
        return
    _check_meanings(field, key, values)


def _check_meanings(field: Field, key: str, values: tuple[str, ...]) -> None:
    if not field.findings.written_by_hand:
        return
    spot = field["values"]
    for index, value in enumerate(values):
        one = Field(value, field.findings, spot, index)
        if label_validation.check_value(one, value):
            label_validation.check_meaning(spot if len(values) == 1 else one, key, value)


def _check_least(
    field: Field, operator: Operator, values: tuple[str, ...], least: int | None
) -> None:
    if least is not None and operator is Operator.IN and len(set(values)) < least:
        field["minValues"].mistake(f"is {least}, but there are only {len(set(values))} values")


def show_requirement(one: RequirementSpec) -> dict[str, Any]:
    """Write an entry as the wire has it."""
    shown: dict[str, Any] = {"key": one.key, "operator": str(one.operator)}
    if one.values:
        shown["values"] = list(one.values)
    if one.min_values is not None:
        shown["minValues"] = one.min_values
    return shown


def selector(field: Field) -> LabelSelector | None:
    """Read a label selector; None when there is none (which selects nothing)."""
    if not field:
        return None
    field.known_keys(("matchLabels", "matchExpressions"))
    read: LabelSelector = field.findings.shared(
        LabelSelector(
            field["matchLabels"].labels(),
            requirements(field["matchExpressions"], SELECTOR_OPERATORS),
        )
    )
    return read


def show_selector(one: LabelSelector) -> dict[str, Any]:
    """Write a selector as the wire has it."""
    shown: dict[str, Any] = {}
    if one.match_labels:
        shown["matchLabels"] = dict(one.match_labels)
    if one.expressions:
        shown["matchExpressions"] = [show_requirement(each) for each in one.expressions]
    return shown


def taint(field: Field) -> Taint | None:
    """Read a taint."""
    field.known_keys(("key", "value", "effect", "timeAdded"))
    effect = field["effect"]
    if not field["key"].required() or not effect.required():
        return None
    if not label_validation.check_key(field["key"], field["key"].text()):
        return None
    if effect.text() not in tuple(Effect):
        effect.mistake(f"{effect.text()!r} is no effect{did_you_mean(effect.text(), list(Effect))}")
        return None
    value = field["value"].text()
    if not label_validation.check_value(field["value"], value):
        return None
    return Taint(field["key"].text(), Effect(effect.text()), value)


def taints(field: Field) -> tuple[Taint, ...]:
    """Read a list of taints, leaving out those that are wrong."""
    if field.value is None:
        return ()
    read = (taint(one) for one in field.items())
    return tuple(one for one in read if one is not None)


def show_taint(one: Taint) -> dict[str, Any]:
    """Write a taint as the wire has it."""
    shown = {"key": one.key, "value": one.value, "effect": str(one.effect)}
    return {name: value for name, value in shown.items() if value}


def toleration(field: Field) -> Toleration | None:
    """Read a toleration."""
    field.known_keys(("key", "operator", "value", "effect", "tolerationSeconds"))
    key, value = field["key"].text(), field["value"].text()
    operator = field["operator"].choice(
        ("Equal", "Exists", "Lt", "Gt"), "Equal", "operator of a toleration"
    )
    effect = field["effect"].text()
    if effect and effect not in tuple(Effect):
        field["effect"].mistake(f"{effect!r} is no effect{did_you_mean(effect, list(Effect))}")
        return None
    if operator == "Exists" and value:
        field["value"].mistake("Exists takes no value")
    if not key and operator != "Exists":
        field["key"].mistake("is missing; only operator Exists does without")
    read = Toleration(key, operator, value, Effect(effect) if effect else None)
    shared: Toleration = field.findings.shared(read)
    return shared


def tolerations(field: Field) -> tuple[Toleration, ...]:
    """Read a list of tolerations, leaving out those that are wrong."""
    if not field.value:
        return ()
    read = (toleration(one) for one in field.items())
    return tuple(one for one in read if one is not None)


def show_toleration(one: Toleration) -> dict[str, Any]:
    """Write a toleration as the wire has it."""
    shown = {
        "key": one.key,
        "operator": one.operator if one.operator != "Equal" else "",
        "value": one.value,
        "effect": str(one.effect) if one.effect else "",
    }
    return {name: value for name, value in shown.items() if value}
