"""Strategic merge patch: a merge patch that merges keyed lists item by item."""

from collections.abc import Mapping
from typing import Any, Final

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_errors import BadRequest
from dovetail.simulator.apiserver.patch.list_merge_keys import SET_LISTS, patch_merge_key
from dovetail.simulator.apiserver.storage.frozen_object import thaw

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_SET_ELEMENT_ORDER: Final = "$setElementOrder/"
_DELETE_FROM_PRIMITIVE_LIST: Final = "$deleteFromPrimitiveList/"


def apply_strategic_merge_patch(resource: Resource, target: Any, patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``target`` with ``patch`` merged, including its ``$`` directives."""
    return _merge_object(resource, thaw(target) if target else {}, patch)


def _merge_object(resource: Resource, target: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    directive = patch.get(_DIRECTIVE)
    if directive == "delete":
        return {}
    if directive == "replace":
        return _strip_directives(patch)
    if directive not in (None, "merge"):
        raise BadRequest(f"{directive!r} is not a $patch directive")
    target = _apply_removals(target, patch)
    for name, value in patch.items():
        if not name.startswith("$"):
            _merge_field(resource, target, name, value)
    for name, value in patch.items():
        if name.startswith(_SET_ELEMENT_ORDER):
            _reorder(resource, target, name.removeprefix(_SET_ELEMENT_ORDER), value)
    return target


def _apply_removals(target: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Apply the directives that remove fields and values, before the merge."""
    if _RETAIN_KEYS in patch:
        target = {name: value for name, value in target.items() if name in patch[_RETAIN_KEYS]}
    for name, removed in patch.items():
        if name.startswith(_DELETE_FROM_PRIMITIVE_LIST):
            field = name.removeprefix(_DELETE_FROM_PRIMITIVE_LIST)
            target[field] = [item for item in target.get(field) or [] if item not in removed]
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
    if field in SET_LISTS:
        return [*target, *(value for value in patch if value not in target)]
    key = patch_merge_key(resource, field)
    if key is None or not all(isinstance(item, dict) for item in patch):
        return [thaw(item) for item in patch]
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        return [_strip_directives(item) for item in patch if item.get(_DIRECTIVE) != "replace" or key in item]
    items = list(target)
    for item_patch in patch:
        if key not in item_patch:
            raise BadRequest(f"map: {dict(item_patch)} does not contain declared merge key: {key}")
        _merge_item(resource, items, key, item_patch)
    return items


def _merge_item(resource: Resource, items: list[Any], key: str, patch: Mapping[str, Any]) -> None:
    index = next((i for i, item in enumerate(items) if item.get(key) == patch[key]), None)
    if patch.get(_DIRECTIVE) == "delete":
        if index is not None:
            del items[index]
    elif index is None:
        items.append(_merge_object(resource, {}, patch))
    else:
        items[index] = _merge_object(resource, items[index], patch)


def _reorder(resource: Resource, target: dict[str, Any], field: str, order: list[Any]) -> None:
    """Sort items by the given order; items outside of it follow in their old order."""
    items = target.get(field)
    if not items:
        return
    key = patch_merge_key(resource, field)
    values = [item.get(key) if isinstance(item, dict) else item for item in order]
    positions = {value: position for position, value in enumerate(values)}

    def position(item: Any) -> int:
        value = item.get(key) if isinstance(item, dict) else item
        return positions.get(value, len(positions))

    target[field] = sorted(items, key=position)


def _strip_directives(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _copy_without_directives(value) for name, value in obj.items() if not name.startswith("$")}


def _copy_without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return _strip_directives(value)
    if isinstance(value, list):
        return [_copy_without_directives(item) for item in value]
    return value
