"""Resource lists: exact arithmetic; a missing resource is zero."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.resources import NO_RESOURCES, Resources, sum_resources

names = st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu"])
lists = st.dictionaries(names, st.integers(0, 1000)).map(Resources)


@given(lists, lists)
def test_adding_is_commutative_and_subtracting_undoes_it(a: Resources, b: Resources) -> None:
    assert a + b == b + a
    assert ((a + b) - b).without_zeros() == a.without_zeros()


@given(st.lists(lists, max_size=4))
def test_a_total_is_the_sum_of_its_parts(many: list[Resources]) -> None:
    added = NO_RESOURCES
    for resources in many:
        added = added + resources

    assert sum_resources(many) == added


@given(lists, lists)
def test_at_least_fits_both_and_nothing_smaller_does(a: Resources, b: Resources) -> None:
    larger = a.maximum(b)

    assert a.fits_in(larger)
    assert b.fits_in(larger)
    assert all(amount in (a.get(name, 0), b.get(name, 0)) for name, amount in larger.items())


@given(lists, lists)
def test_requests_fit_if_no_resource_is_exceeded(request: Resources, room: Resources) -> None:
    short = [name for name, amount in (room - request).items() if amount < 0]

    assert request.fits_in(room) == (not short)


def test_s19_a_request_of_zero_fits_where_the_resource_is_missing() -> None:
    assert Resources({"foo.com/unknown": 0}).fits_in(NO_RESOURCES)


def test_a_missing_resource_is_zero() -> None:
    assert not Resources({"nvidia.com/gpu": 1}).fits_in({"cpu": 1000})


def test_clamping_changes_negative_amounts_only() -> None:
    assert Resources({"cpu": -5, "memory": 3}).clamp_at_zero() == {"cpu": 0, "memory": 3}


def test_a_resource_list_is_parsed_and_encoded_as_in_kubernetes() -> None:
    parsed = Resources.parse({"memory": "1Gi", "cpu": "1500m", "nvidia.com/gpu": 1})

    assert parsed == {"cpu": 1500, "memory": 2**30, "nvidia.com/gpu": 1}
    assert parsed.to_quantities() == {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "1"}
    assert list(parsed.to_quantities()) == ["cpu", "memory", "nvidia.com/gpu"]


def test_a_bad_quantity_names_its_resource() -> None:
    with pytest.raises(ValueError, match="memory: '1GB' is not a quantity"):
        Resources.parse({"cpu": "1", "memory": "1GB"})


def test_resources_cannot_be_changed() -> None:
    amounts = Resources({"cpu": 1})

    for change in (
        lambda: amounts.__setitem__("cpu", 2),
        lambda: amounts.__delitem__("cpu"),
        lambda: amounts.update({"cpu": 2}),
        lambda: amounts.pop("cpu"),
        lambda: amounts.popitem(),
        lambda: amounts.setdefault("memory", 2),
        amounts.clear,
        lambda: amounts.__ior__({"cpu": 2}),
    ):
        with pytest.raises(TypeError, match="cannot be changed"):
            change()  # type: ignore[no-untyped-call]
    assert amounts == {"cpu": 1}


def test_equality_and_hash_do_not_depend_on_insertion_order() -> None:
    first, second = FrozenDict({"a": 1, "b": 2}), FrozenDict({"b": 2, "a": 1})

    assert first == second
    assert hash(first) == hash(second)
    assert {first: "value"}[second] == "value"


def test_copies_and_pickles_stay_equal_and_frozen() -> None:
    amounts = Resources({"cpu": 1})
    hash(amounts)

    for twin in (copy.deepcopy(amounts), pickle.loads(pickle.dumps(amounts))):  # noqa: S301
        assert twin == amounts
        assert hash(twin) == hash(amounts)
        assert isinstance(twin, Resources)


def test_with_items_does_not_change_the_original() -> None:
    labels = FrozenDict({"a": "1", "b": "2"})

    assert labels.with_items({"b": "3", "c": "4"}) == {"a": "1", "b": "3", "c": "4"}
    assert labels == {"a": "1", "b": "2"}
