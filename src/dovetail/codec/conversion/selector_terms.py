"""Selectors of old node templates, maps of tags and ids, as terms of today."""

from typing import Any

Raw = dict[str, Any]

_IDS = ("aws-ids", "aws::ids")
_NAME, _OWNERS = "aws::name", "aws::owners"


def terms(selector: Any, said: list[str]) -> list[Raw]:
    """Turn a map of tags and ids into terms of which one must hold.

    What changes its meaning is added to ``said``.
    """
    if not isinstance(selector, dict):
        return []
    ids = _ids(selector)
    tags = {key: value for key, value in selector.items() if key not in _IDS}
    if ids:
        return _by_id(ids, tags, said)
    return [{"tags": one} for one in _alternatives(tags, said)]


def image_terms(selector: Any, said: list[str]) -> list[Raw]:
    """Turn the selector of images into terms; names and owners have fields of their own."""
    if not isinstance(selector, dict):
        return []
    ids = _ids(selector)
    rest = {key: value for key, value in selector.items() if key not in _IDS}
    if ids:
        return _by_id(ids, rest, said)
    tags = {key: value for key, value in rest.items() if key not in (_NAME, _OWNERS)}
    found: list[Raw] = [{"tags": one} for one in _alternatives(tags, said)] if tags else [{}]
    for key, name in ((_NAME, "name"), (_OWNERS, "owner")):
        values = _listed(selector.get(key))
        if values:
            found = [{**term, name: value} for term in found for value in values]
    return [term for term in found if term]


def _ids(selector: Raw) -> list[str]:
    return [one for key in _IDS for one in _listed(selector.get(key))]


def _by_id(ids: list[str], others: Raw, said: list[str]) -> list[Raw]:
    if others:
        names = ", ".join(others)
        said.append(f"An id stands alone in v1; left out, though both had to hold: {names}.")
    return [{"id": one} for one in ids]


def _alternatives(tags: Raw, said: list[str]) -> list[Raw]:
    """Split comma-separated tag values: each combination is a term of its own."""
    found: list[Raw] = [{}]
    for key, value in tags.items():
        values = _listed(value) or [value]
        if len(values) > 1:
            said.append(f"One term for each of the values of {key} that stood with commas between.")
        found = [{**one, key: each} for one in found for each in values]
    return [one for one in found if one]


def _listed(value: Any) -> list[str]:
    if not isinstance(value, str):
        return []
    return [one.strip() for one in value.split(",") if one.strip()]
