"""Messages for pydantic's errors, with the path of the field in the file."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic_core import ErrorDetails

from dovetail.codec.text.field_path import FieldPath
from dovetail.codec.text.suggestions import suggest
from dovetail.eks.config.json_schema import allowed_keys

FieldError = tuple[FieldPath, str]
"""Path of a field in the file, and what is wrong with it."""

_PATTERN_MESSAGES: Final = {
    r"^arn:": "not an ARN, such as arn:aws:iam::123456789012:role/name",
    r"^subnet-": "not a subnet id (subnet-…)",
    r"^sg-": "not a security group id (sg-…)",
    r"^vpc-": "not a VPC id (vpc-…)",
    r"^[0-9]{12}$": "not an account id: twelve digits, in quotes",
    r"^1\.": "not a Kubernetes version, such as '1.33'",
    r"^/(": "not an IAM path: it begins and ends with a slash",
    r"^[a-z0-9](": "not a Kubernetes name: lower-case letters, digits, '-' and '.'",
    r"^[0-9A-Za-z][": "not a cluster name: letters, digits, '-' and '_'",
}
"""Start of a field's pattern → message for a value that does not match."""
_TYPE_NAMES: Final = {
    "string_type": "text",
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "a map",
    "model_type": "a map",
    "model_attributes_type": "a map",
}
"""pydantic's error type → the expected type."""


def describe_errors(errors: Iterable[ErrorDetails], data: Any) -> Iterator[FieldError]:
    """Yield each error once, with its path in the file."""
    reported: set[FieldError] = set()
    for error in errors:
        path = _path_in_file(error["loc"], data, missing=error["type"] == "missing")
        field_error = (path, _message(error, path))
        if field_error not in reported:
            reported.add(field_error)
            yield field_error


def _path_in_file(loc: tuple[int | str, ...], data: Any, *, missing: bool) -> FieldPath:
    """Return the path in the file: pydantic's without the names of union members."""
    path: list[str | int] = []
    value = data
    for number, step in enumerate(loc):
        if isinstance(value, Mapping) and step in value:
            path.append(step)
            value = value[step]
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            path.append(step)
            value = value[step]
        elif missing and number == len(loc) - 1:
            path.append(step)
    return tuple(path)


def _message(error: ErrorDetails, path: FieldPath) -> str:
    kind, value = error["type"], error["input"]
    context = error.get("ctx", {})
    if kind == "extra_forbidden":
        return f"is not a field here{suggest(str(path[-1]), allowed_keys(path[:-1]))}"
    if kind == "missing":
        return "is missing"
    if kind in ("literal_error", "enum", "union_tag_invalid"):
        return _choice_message(kind, value, context)
    if kind == "union_tag_not_found":
        return "has no kind: managed-node-group, fargate or existing"
    if kind == "string_pattern_mismatch":
        return _pattern_message(str(context.get("pattern", "")), value)
    if kind == "string_type" and isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value} must be text: put it in quotes"
    if kind in _TYPE_NAMES:
        return f"{_shorten(value)} is not {_TYPE_NAMES[kind]}"
    if kind == "value_error":
        return str(context.get("error", error["msg"]))
    return error["msg"].replace("Input should", "should").replace("List should", "should")


def _choice_message(kind: str, value: Any, context: Mapping[str, Any]) -> str:
    if kind == "union_tag_invalid":
        value, expected = context["tag"], str(context["expected_tags"])
    else:
        expected = str(context["expected"])
    choices = [choice.strip().strip("'") for choice in expected.replace(" or ", ",").split(",")]
    return f"{value!r} is not a valid value{suggest(str(value), choices)}"


def _pattern_message(pattern: str, value: Any) -> str:
    for start, message in _PATTERN_MESSAGES.items():
        if pattern.startswith(start):
            return f"{value!r} is {message}"
    return f"{value!r} does not match {pattern}"


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"
