"""JSON merge patch (RFC 7386) and JSON patch (RFC 6902)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from dovetail.ports.kube_errors import BadRequest, Invalid, RequestEntityTooLarge
from dovetail.simulator.apiserver.storage.frozen_object import thaw

_MAX_OPERATIONS: Final = 10_000
_MAX_COPIED: Final = 3 << 20
"""Bytes that all copies of a patch may add; both are Kubernetes' limits.

A copy of the whole into a part of itself doubles the document.
"""


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """Return ``target`` with ``patch`` merged; null removes a field, lists are replaced."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = apply_merge_patch(merged.get(name), value)
    return merged


def apply_json_patch(target: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """Return ``target`` after all operations; ``target`` itself is not changed."""
    if len(operations) > _MAX_OPERATIONS:
        raise RequestEntityTooLarge(
            f"the allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, got {len(operations)}"
        )
    document, copied = thaw(target), 0
    for operation in operations:
        try:
            if operation["op"] == "copy":
                copied += len(msgspec.json.encode(_get_value(document, operation["from"])))
                if copied > _MAX_COPIED:
                    raise RequestEntityTooLarge(f"json patch: copies add more than {_MAX_COPIED} bytes")
            document = _OPERATIONS[operation["op"]](document, operation)
        except (KeyError, TypeError) as error:
            raise BadRequest(f"json patch: {dict(operation)} is not a valid operation") from error
    return document


def _parse_pointer(pointer: Any) -> list[str]:
    """Return the segments of a JSON pointer (RFC 6901)."""
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise BadRequest(f"json patch: {pointer!r} is not a JSON pointer")
    return [segment.replace("~1", "/").replace("~0", "~") for segment in pointer.split("/")[1:]]


def _missing_path_error(pointer: str) -> Invalid:
    return Invalid(f"the server rejected our request: json patch: path {pointer!r} does not exist")


def _parse_index(items: list[Any], segment: str, pointer: str, *, may_append: bool) -> int:
    if may_append and segment == "-":
        return len(items)
    is_index = segment.isascii() and segment.isdigit() and (segment == "0" or not segment.startswith("0"))
    if not is_index or int(segment) >= len(items) + may_append:
        raise _missing_path_error(pointer)
    return int(segment)


def _get_value(document: Any, pointer: str) -> Any:
    for segment in _parse_pointer(pointer):
        if isinstance(document, dict) and segment in document:
            document = document[segment]
        elif isinstance(document, list):
            document = document[_parse_index(document, segment, pointer, may_append=False)]
        else:
            raise _missing_path_error(pointer)
    return document


def _get_parent(document: Any, pointer: str) -> tuple[Any, str]:
    *parents, last = _parse_pointer(pointer)
    escaped = "".join("/" + segment.replace("~", "~0").replace("/", "~1") for segment in parents)
    return _get_value(document, escaped), last


def _add_value(document: Any, pointer: str, value: Any) -> Any:
    if pointer == "":
        return value
    parent, last = _get_parent(document, pointer)
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        parent.insert(_parse_index(parent, last, pointer, may_append=True), value)
    else:
        raise _missing_path_error(pointer)
    return document


def _remove_value(document: Any, pointer: str) -> Any:
    _get_value(document, pointer)
    if pointer == "":
        return None
    parent, last = _get_parent(document, pointer)
    del parent[last if isinstance(parent, dict) else int(last)]
    return document


def _replace(document: Any, operation: Mapping[str, Any]) -> Any:
    value = thaw(operation["value"])
    return _add_value(_remove_value(document, operation["path"]), operation["path"], value)


def _move(document: Any, operation: Mapping[str, Any]) -> Any:
    source, path = operation["from"], operation["path"]
    if path != source and path.startswith(source + "/"):
        raise BadRequest(f"json patch: cannot move {source!r} into itself")
    value = _get_value(document, source)
    return _add_value(_remove_value(document, source), path, value)


def _copy(document: Any, operation: Mapping[str, Any]) -> Any:
    value = thaw(_get_value(document, operation["from"]))
    return _add_value(document, operation["path"], value)


def _test(document: Any, operation: Mapping[str, Any]) -> Any:
    actual, expected = _get_value(document, operation["path"]), operation["value"]
    if not json_equal(actual, expected):
        raise Invalid(
            "the server rejected our request: json patch: "
            f"{operation['path']!r} is {actual!r}, not {expected!r}"
        )
    return document


def json_equal(left: Any, right: Any) -> bool:
    """Return True if two values are equal as JSON, where ``true`` is not ``1``."""
    if left is right:  # Fast path: versions of an object share their frozen parts.
        return True
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(json_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(json_equal, left, right))
    return bool(left == right)


_OPERATIONS: Final[dict[str, Callable[[Any, Mapping[str, Any]], Any]]] = {
    "add": lambda document, step: _add_value(document, step["path"], thaw(step["value"])),
    "remove": lambda document, step: _remove_value(document, step["path"]),
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
