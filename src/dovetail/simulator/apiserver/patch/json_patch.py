"""JSON merge patch (RFC 7386) and JSON patch (RFC 6902)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dovetail.ports.kube_errors import BadRequest, Invalid
from dovetail.simulator.apiserver.storage.frozen_object import thaw


def merge_patch(target: Any, patch: Any) -> Any:
    """Return ``target`` with ``patch`` merged in; null removes, lists are replaced."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def json_patch(target: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """Return ``target`` after all operations; none has happened if one cannot."""
    document = thaw(target)
    for operation in operations:
        try:
            document = _OPERATIONS[operation["op"]](document, operation)
        except (KeyError, TypeError) as error:
            raise BadRequest(f"json patch: {dict(operation)} is no operation") from error
    return document


def _steps(pointer: Any) -> list[str]:
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise BadRequest(f"json patch: {pointer!r} is no pointer")
    return [one.replace("~1", "/").replace("~0", "~") for one in pointer.split("/")[1:]]


def _missing(pointer: str) -> Invalid:
    return Invalid(f"the server rejected our request: json patch: nothing at {pointer!r}")


def _position(items: list[Any], step: str, pointer: str, *, may_end: bool) -> int:
    if may_end and step == "-":
        return len(items)
    is_number = step.isascii() and step.isdigit() and (step == "0" or not step.startswith("0"))
    if not is_number or int(step) >= len(items) + may_end:
        raise _missing(pointer)
    return int(step)


def _read(document: Any, pointer: str) -> Any:
    for step in _steps(pointer):
        if isinstance(document, dict) and step in document:
            document = document[step]
        elif isinstance(document, list):
            document = document[_position(document, step, pointer, may_end=False)]
        else:
            raise _missing(pointer)
    return document


def _parent(document: Any, pointer: str) -> tuple[Any, str]:
    *way, last = _steps(pointer)
    escaped = "".join("/" + one.replace("~", "~0").replace("/", "~1") for one in way)
    return _read(document, escaped), last


def _put(document: Any, pointer: str, value: Any) -> Any:
    if pointer == "":
        return value
    parent, last = _parent(document, pointer)
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        parent.insert(_position(parent, last, pointer, may_end=True), value)
    else:
        raise _missing(pointer)
    return document


def _take(document: Any, pointer: str) -> Any:
    _read(document, pointer)
    if pointer == "":
        return None
    parent, last = _parent(document, pointer)
    del parent[last if isinstance(parent, dict) else int(last)]
    return document


def _add(document: Any, operation: Mapping[str, Any]) -> Any:
    return _put(document, operation["path"], thaw(operation["value"]))


def _remove(document: Any, operation: Mapping[str, Any]) -> Any:
    return _take(document, operation["path"])


def _replace(document: Any, operation: Mapping[str, Any]) -> Any:
    value = thaw(operation["value"])
    return _put(_take(document, operation["path"]), operation["path"], value)


def _move(document: Any, operation: Mapping[str, Any]) -> Any:
    source, path = operation["from"], operation["path"]
    if path != source and path.startswith(source + "/"):
        raise BadRequest(f"json patch: cannot move {source!r} into itself")
    value = _read(document, source)
    return _put(_take(document, source), path, value)


def _copy(document: Any, operation: Mapping[str, Any]) -> Any:
    return _put(document, operation["path"], thaw(_read(document, operation["from"])))


def _test(document: Any, operation: Mapping[str, Any]) -> Any:
    found, expected = _read(document, operation["path"]), operation["value"]
    if not same_json(found, expected):
        raise Invalid(
            "the server rejected our request: json patch: "
            f"{operation['path']!r} is {found!r}, not {expected!r}"
        )
    return document


def same_json(one: Any, other: Any) -> bool:
    """Compare as JSON does, where ``true`` is not ``1``."""
    if one is other:  # What is frozen is shared between versions of an object.
        return True
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return bool(one == other)


_OPERATIONS: Final[dict[str, Callable[[Any, Mapping[str, Any]], Any]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
