"""What pydantic finds wrong, in our words and at the user's place in the file."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic_core import ErrorDetails

from dovetail.codec.text.field_path import Path
from dovetail.codec.text.suggestions import did_you_mean
from dovetail.eks.config.json_schema import known_keys

_LOOKS: Final = {
    r"^arn:": "no ARN, such as arn:aws:iam::123456789012:role/name",
    r"^subnet-": "no subnet id (subnet-…)",
    r"^sg-": "no id of a security group (sg-…)",
    r"^vpc-": "no VPC id (vpc-…)",
    r"^[0-9]{12}$": "no account number: twelve digits, in quotes",
    r"^1\.": "no Kubernetes version, such as '1.33'",
    r"^/(": "no IAM path: it begins and ends with a slash",
    r"^[a-z0-9](": "no name for Kubernetes: small letters, digits, '-' and '.'",
    r"^[0-9A-Za-z][": "no name for a cluster: letters, digits, '-' and '_'",
}
_TYPES: Final = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "a map",
    "model_type": "a map",
    "model_attributes_type": "a map",
}


def findings(errors: Iterable[ErrorDetails], data: Any) -> Iterator[tuple[Path, str]]:
    """Hand out each mistake once: the way to it in the file, and what is wrong."""
    seen: set[tuple[Path, str]] = set()
    for error in errors:
        path = _written(error["loc"], data, missing=error["type"] == "missing")
        finding = (path, _sentence(error, path))
        if finding not in seen:
            seen.add(finding)
            yield finding


def _written(loc: tuple[int | str, ...], data: Any, *, missing: bool) -> Path:
    """Return the path as it stands in the file; pydantic adds the names of union members."""
    path: list[str | int] = []
    here = data
    for number, step in enumerate(loc):
        if isinstance(here, Mapping) and step in here:
            path.append(step)
            here = here[step]
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            path.append(step)
            here = here[step]
        elif missing and number == len(loc) - 1:
            path.append(step)
    return tuple(path)


def _sentence(error: ErrorDetails, path: Path) -> str:
    kind, given = error["type"], error["input"]
    context = error.get("ctx", {})
    if kind == "extra_forbidden":
        return f"is no field here{did_you_mean(str(path[-1]), known_keys(path[:-1]))}"
    if kind == "missing":
        return "is missing"
    if kind in ("literal_error", "enum", "union_tag_invalid"):
        return _choice(kind, given, context)
    if kind == "union_tag_not_found":
        return "does not say its kind: managed-node-group, fargate or existing"
    if kind == "string_pattern_mismatch":
        pattern = str(context.get("pattern", ""))
        looks = next((text for start, text in _LOOKS.items() if pattern.startswith(start)), "")
        return f"{given!r} is {looks}" if looks else f"{given!r} does not match {pattern}"
    if kind == "string_type" and isinstance(given, int | float) and not isinstance(given, bool):
        return f"{given} must be text: put it in quotes"
    if kind in _TYPES:
        return f"{_short(given)} is not {_TYPES[kind]}"
    if kind == "value_error":
        return str(context.get("error", error["msg"]))
    return error["msg"].replace("Input should", "should").replace("List should", "should")


def _choice(kind: str, given: Any, context: Mapping[str, Any]) -> str:
    if kind == "union_tag_invalid":
        given, expected = context["tag"], str(context["expected_tags"])
    else:
        expected = str(context["expected"])
    known = [one.strip().strip("'") for one in expected.replace(" or ", ",").split(",")]
    return f"{given!r} is not known{did_you_mean(str(given), known)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"
