"""Strategic merge patch: like merge patch, but lists with a key merge item by item."""

from collections.abc import Mapping
from typing import Any, Final

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_errors import BadRequest
from dovetail.simulator.apiserver.patch.list_merge_keys import PRIMITIVE_SETS, strategic_key
from dovetail.simulator.apiserver.storage.frozen_object import thaw

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE_PRIMITIVES: Final = "$deleteFromPrimitiveList/"


def strategic_merge(resource: Resource, target: Any, patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``target`` with ``patch`` merged in, directives obeyed."""
    return _merge_object(resource, thaw(target) if target else {}, patch)


def _merge_object(
    resource: Resource, target: dict[str, Any], patch: Mapping[str, Any]
) -> dict[str, Any]:
    directive = patch.get(_DIRECTIVE)
    if directive == "delete":
        return {}
    if directive == "replace":
        return _plain_object(patch)
    if directive not in (None, "merge"):
        raise BadRequest(f"{directive!r} is no $patch directive")
    target = _thinned(target, patch)
    for name, value in patch.items():
        if not name.startswith("$"):
            _merge_field(resource, target, name, value)
    for name, value in patch.items():
        if name.startswith(_ORDER):
            _reorder(resource, target, name.removeprefix(_ORDER), value)
    return target


def _thinned(target: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Take away what the patch's directives name, before anything is merged."""
    if _RETAIN in patch:
        target = {name: one for name, one in target.items() if name in patch[_RETAIN]}
    for name, value in patch.items():
        if name.startswith(_DELETE_PRIMITIVES):
            field = name.removeprefix(_DELETE_PRIMITIVES)
            target[field] = [one for one in target.get(field) or [] if one not in value]
    return target


def _merge_field(resource: Resource, target: dict[str, Any], name: str, value: Any) -> None:
    if value is None:
        target.pop(name, None)
    elif isinstance(value, dict):
        current = target.get(name)
        merged = _merge_object(resource, current if isinstance(current, dict) else {}, value)
        if merged or value.get(_DIRECTIVE) != "delete":
            target[name] = merged
        else:
            target.pop(name, None)
    elif isinstance(value, list):
        target[name] = _merge_list(resource, name, target.get(name) or [], value)
    else:
        target[name] = value


def _merge_list(resource: Resource, field: str, target: list[Any], patch: list[Any]) -> list[Any]:
    if field in PRIMITIVE_SETS:
        return [*target, *(one for one in patch if one not in target)]
    key = strategic_key(resource, field)
    if key is None or not all(isinstance(one, dict) for one in patch):
        return [thaw(one) for one in patch]
    if any(one.get(_DIRECTIVE) == "replace" for one in patch):
        return [
            _plain_object(one) for one in patch if one.get(_DIRECTIVE) != "replace" or key in one
        ]
    items = list(target)
    for change in patch:
        if key not in change:
            raise BadRequest(f"map: {dict(change)} does not contain declared merge key: {key}")
        _merge_item(resource, items, key, change)
    return items


def _merge_item(resource: Resource, items: list[Any], key: str, change: Mapping[str, Any]) -> None:
    at = next((at for at, one in enumerate(items) if one.get(key) == change[key]), None)
    if change.get(_DIRECTIVE) == "delete":
        if at is not None:
            del items[at]
    elif at is None:
        items.append(_merge_object(resource, {}, change))
    else:
        items[at] = _merge_object(resource, items[at], change)


def _reorder(resource: Resource, target: dict[str, Any], field: str, order: list[Any]) -> None:
    """Bring named items into the order given; the others keep their place behind them."""
    items = target.get(field)
    if not items:
        return
    key = strategic_key(resource, field)
    wanted = [one.get(key) if isinstance(one, dict) else one for one in order]
    places = {value: place for place, value in enumerate(wanted)}

    def place(item: Any) -> int:
        name = item.get(key) if isinstance(item, dict) else item
        return places.get(name, len(places))

    target[field] = sorted(items, key=place)


def _plain_object(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(one) for name, one in value.items() if not name.startswith("$")}


def _plain(value: Any) -> Any:
    """Copy without directives."""
    if isinstance(value, dict):
        return _plain_object(value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value
