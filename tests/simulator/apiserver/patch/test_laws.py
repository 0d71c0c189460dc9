"""Laws that patches keep for any document."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ports.api_resources import PODS
from dovetail.simulator.apiserver.patch.json_patch import apply_json_patch, apply_merge_patch
from dovetail.simulator.apiserver.patch.managed_fields import decode_fields_v1, encode_fields_v1, field_values
from dovetail.simulator.apiserver.patch.server_side_apply import (
    FieldManager,
    apply_configuration,
    decode_managed_fields,
)
from dovetail.simulator.apiserver.patch.strategic_merge import apply_strategic_merge_patch
from dovetail.simulator.apiserver.storage.frozen_object import FrozenObject, freeze, thaw

unhurried = settings(deadline=None)

names = st.sampled_from(["a", "b", "c", "d/e", "f~g"])
scalars = st.one_of(st.booleans(), st.integers(-2, 2), st.sampled_from(["", "x", "y"]))


def objects(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    values = st.recursive(
        leaf,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
        max_leaves=8,
    )
    return st.dictionaries(names, values, max_size=4)


documents = objects(scalars)
patches = objects(st.one_of(scalars, st.none()))

items = st.fixed_dictionaries(
    {"name": st.sampled_from(["p", "q", "r"])},
    optional={"image": st.sampled_from(["1", "2"]), "tty": st.booleans()},
)
configs = st.fixed_dictionaries(
    {"metadata": st.just({"name": "x"})},
    optional={
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "containers": st.lists(items, max_size=3, unique_by=lambda item: item["name"]),
                "nodeSelector": st.dictionaries(names, st.sampled_from("xy"), max_size=3),
                "tolerations": st.lists(st.fixed_dictionaries({"key": names}), max_size=2),
                "priority": st.integers(0, 2),
            },
        )
    },
)


@unhurried
@given(documents, patches)
def test_a_merge_patch_applied_twice_is_applied_once(target: Any, patch: Any) -> None:
    once = apply_merge_patch(target, patch)

    assert apply_merge_patch(once, patch) == once


@unhurried
@given(documents)
def test_an_empty_merge_patch_changes_nothing(target: Any) -> None:
    assert apply_merge_patch(target, {}) == target


@unhurried
@given(documents, documents)
def test_between_any_two_documents_there_is_a_merge_patch(before: Any, after: Any) -> None:
    def difference(old: Any, new: Any) -> Any:
        if not isinstance(old, dict) or not isinstance(new, dict):
            return new
        patch = {name: None for name in old if name not in new}
        for name, value in new.items():
            patch[name] = difference(old.get(name), value)
        return patch

    assert apply_merge_patch(before, difference(before, after)) == after


@unhurried
@given(documents, patches)
def test_no_patch_touches_what_it_is_applied_to(target: Any, patch: Any) -> None:
    frozen, kept = freeze(target), thaw(target)

    apply_merge_patch(frozen, patch)
    apply_strategic_merge_patch(PODS, frozen, patch)

    assert frozen == kept


@unhurried
@given(documents, patches)
def test_without_keyed_lists_a_strategic_merge_equals_a_merge_patch(target: Any, patch: Any) -> None:
    assert apply_strategic_merge_patch(PODS, target, patch) == apply_merge_patch(target, patch)


@unhurried
@given(documents, names, documents)
def test_adding_and_removing_the_same_field_changes_nothing(target: Any, name: str, value: Any) -> None:
    path = "/new~1" + name.replace("~", "~0").replace("/", "~1")
    operations = [
        {"op": "add", "path": path, "value": value},
        {"op": "test", "path": path, "value": value},
        {"op": "remove", "path": path},
    ]

    assert apply_json_patch(target, operations) == target


@unhurried
@given(documents)
def test_frozen_documents_equal_the_original_and_thaw_to_it(document: Any) -> None:
    frozen = freeze(document)

    assert isinstance(frozen, FrozenObject)
    assert frozen == document
    assert thaw(frozen) == document
    assert freeze(frozen) is frozen


@unhurried
@given(configs)
def test_field_sets_survive_their_wire_format(config: Any) -> None:
    fields = frozenset(field_values(PODS, config))

    assert decode_fields_v1(encode_fields_v1(fields)) == fields


def applied(live: Any, config: Any, who: str, *, force: bool = True) -> Any:
    manager = FieldManager(who, "Apply")
    return freeze(apply_configuration(PODS, live, config, manager, force=force, now="t"))


@unhurried
@given(configs, configs, configs)
def test_a_forced_apply_sets_and_owns_the_configuration(first: Any, second: Any, third: Any) -> None:
    live = freeze({"metadata": {"name": "x"}})
    for config, who in ((first, "me"), (second, "you")):
        live = applied(live, config, who)

    after = applied(live, third, "me")

    values = field_values(PODS, after)
    for path, value in field_values(PODS, third).items():
        # A map or list applied empty keeps what others have in it.
        assert value in ({}, []) or values[path] == value
    assert decode_managed_fields(after).get(FieldManager("me", "Apply"), (frozenset(), ""))[0] == frozenset(
        field_values(PODS, third)
    )


@unhurried
@given(configs, configs)
def test_applying_the_same_configuration_twice_changes_nothing(first: Any, second: Any) -> None:
    live = applied(freeze({"metadata": {"name": "x"}}), first, "you")
    once = applied(live, second, "me")

    assert applied(once, second, "me", force=False) == once


@unhurried
@given(configs, configs)
def test_applying_an_empty_configuration_removes_all_owned_fields(first: Any, second: Any) -> None:
    start = applied(freeze({"metadata": {"name": "x"}}), first, "you")
    live = applied(applied(start, {"metadata": {"name": "x"}}, "you"), second, "me")

    after = applied(live, {"metadata": {"name": "x"}}, "me")

    assert {path for path, value in field_values(PODS, after).items() if value not in ({}, [])} == set()
