"""Patches between documents: applied to the old one, they give the new one."""

from datetime import UTC, datetime
from enum import Enum
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.view.diff import Patch, apply, diff
from dovetail.view.document import NodeState, NodeView, Totals, Usage, View, decode_view, encode_view

AT = datetime(2026, 1, 1, 9, tzinfo=UTC)
LATER = datetime(2026, 1, 1, 9, 1, tzinfo=UTC)
_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: st.sampled_from(["", "a", "default", "<script>", "ä/b"]),
    int: st.integers(0, 3),
    float: st.sampled_from([0.0, 0.25, 1.5]),
    bool: st.booleans(),
    datetime: st.sampled_from([AT, LATER]),
}


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Return values of a field of the document, whatever its type."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if get_origin(kind) in (UnionType, Union):
        return st.one_of(*(st.none() if part is type(None) else values(part) for part in get_args(kind)))
    if get_origin(kind) is tuple:
        return st.lists(values(get_args(kind)[0]), max_size=2).map(tuple)
    if get_origin(kind) is dict:
        return st.dictionaries(values(str), values(get_args(kind)[1]), max_size=2)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(kind)
    return st.deferred(lambda: st.builds(kind, **{f.name: values(f.type) for f in fields_of(kind)}))


def fields_of(kind: type[msgspec.Struct]) -> list[msgspec.structs.FieldInfo]:
    return [field for field in msgspec.structs.fields(kind) if field.name != "version"]


def a_node(key: str, **changes: Any) -> NodeView:
    return NodeView(key=key, name=key, **{"state": NodeState.READY, **changes})


VIEWS = values(View)


@given(VIEWS, VIEWS)
@settings(max_examples=60)
def test_patch_applied_to_the_old_document_gives_the_new_one(old: View, new: View) -> None:
    assert apply(diff(old, new), old) == new


@given(VIEWS, VIEWS)
@settings(max_examples=30)
def test_patch_survives_its_json(old: View, new: View) -> None:
    sent = msgspec.json.decode(msgspec.json.encode(diff(old, new)), type=Patch)

    assert apply(sent, old) == new


@given(VIEWS)
@settings(max_examples=30)
def test_document_survives_its_json(view: View) -> None:
    assert decode_view(encode_view(view)) == view


def test_patch_between_equal_documents_is_empty() -> None:
    old = View(at=AT, nodes={"a": a_node("a")})
    new = View(at=LATER, nodes={"a": a_node("a")})

    assert diff(old, new).is_empty


def test_patch_has_only_the_changed_fields_of_a_changed_node() -> None:
    old = View(at=AT, nodes={"a": a_node("a"), "b": a_node("b"), "c": a_node("c")})
    changed = a_node("b", state=NodeState.DRAINING, cpu=Usage(requested=5, allocatable=9))
    new = View(at=LATER, nodes={"a": old.nodes["a"], "b": changed}, totals=Totals(nodes=2))

    patch = msgspec.to_builtins(diff(old, new))

    assert patch["set"] == {"totals": {"nodes": 2}}
    assert patch["collections"] == {
        "nodes": {
            "set": {"b": {"state": "draining", "cpu": {"requested": 5, "allocatable": 9}}},
            "remove": ("c",),
        }
    }


def test_value_that_becomes_unknown_is_sent_as_null() -> None:
    old = View(at=AT, nodes={"a": a_node("a", price_per_hour=0.5)})
    new = View(at=AT, nodes={"a": a_node("a")})

    patch = diff(old, new)

    assert patch.collections["nodes"].set == {"a": {"pricePerHour": None}}
    assert apply(patch, old) == new
