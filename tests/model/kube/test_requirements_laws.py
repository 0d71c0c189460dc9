"""Laws of the requirement algebra, checked against brute force."""

from hypothesis import given
from hypothesis import strategies as st

from dovetail.model.kube.requirements import Operator, Requirement, Requirements, RequirementSpec

UNIVERSE = ["a", "b", "c", "0", "1", "2", "3", "4", "5", "05", "6", "7", "8", "-1", "1x"]
CONCRETE = ["a", "b", "0", "1", "3", "5", "8"]

values = st.lists(st.sampled_from(CONCRETE), min_size=1, max_size=4).map(tuple)
bounds = st.integers(0, 8).map(lambda number: (str(number),))
floors = st.one_of(st.none(), st.integers(1, 3))


def specs(key: str) -> st.SearchStrategy[RequirementSpec]:
    return st.one_of(
        st.builds(
            RequirementSpec, st.just(key), st.sampled_from([Operator.IN, Operator.NOT_IN]), values, floors
        ),
        st.builds(
            RequirementSpec,
            st.just(key),
            st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST]),
            st.just(()),
            floors,
        ),
        st.builds(
            RequirementSpec,
            st.just(key),
            st.sampled_from([Operator.GT, Operator.LT, Operator.GTE, Operator.LTE]),
            bounds,
            floors,
        ),
    )


single = specs("key").map(Requirement.from_spec)
merged = st.lists(single, min_size=1, max_size=3).map(
    lambda many: Requirements.from_requirements(many)["key"]
)


def holds(spec: RequirementSpec, value: str | None) -> bool:
    """Judge one entry as kube-scheduler would; ``None`` is a node without the label."""
    if spec.operator is Operator.NOT_IN:
        return value is None or value not in spec.values
    if spec.operator is Operator.DOES_NOT_EXIST:
        return value is None
    if value is None:
        return False
    if spec.operator is Operator.EXISTS:
        return True
    if spec.operator is Operator.IN:
        return value in spec.values
    if not value.removeprefix("-").isdigit():
        return False
    number, bound = int(value), int(spec.values[0])
    return {
        Operator.GT: number > bound,
        Operator.LT: number < bound,
        Operator.GTE: number >= bound,
        Operator.LTE: number <= bound,
    }[spec.operator]


@given(st.lists(specs("key"), min_size=1, max_size=4))
def test_several_entries_on_one_key_allow_what_each_of_them_allows(entries: list[RequirementSpec]) -> None:
    both = Requirements.from_specs(entries)["key"]

    assert [value for value in UNIVERSE if both.has(value)] == [
        value for value in UNIVERSE if all(holds(entry, value) for entry in entries)
    ]


@given(st.lists(specs("key"), min_size=1, max_size=4))
def test_a_missing_label_is_allowed_only_if_every_entry_allows_it(entries: list[RequirementSpec]) -> None:
    both = Requirements.from_specs(entries)["key"]

    assert both.allows_absence == all(holds(entry, None) for entry in entries)


@given(merged, merged)
def test_intersection_is_commutative(a: Requirement, b: Requirement) -> None:
    assert a.intersection(b) == b.intersection(a)


@given(merged, merged, merged)
def test_intersection_is_associative(a: Requirement, b: Requirement, c: Requirement) -> None:
    assert a.intersection(b).intersection(c) == a.intersection(b.intersection(c))


@given(merged)
def test_intersection_with_itself_changes_nothing(a: Requirement) -> None:
    assert a.intersection(a) == a


@given(merged, merged)
def test_the_intersection_has_exactly_the_values_that_both_have(a: Requirement, b: Requirement) -> None:
    both = a.intersection(b)

    for value in UNIVERSE:
        assert both.has(value) == (a.has(value) and b.has(value))


@given(merged, merged)
def test_overlapping_agrees_with_trying_every_value(a: Requirement, b: Requirement) -> None:
    # Complements are infinite: 'zz' represents other strings, and '07', '007'… other
    # integers.
    others = ["zz", *(f"00{number}" for number in range(-1, 10)), "99", "-99"]

    is_shared = any(a.has(value) and b.has(value) for value in [*UNIVERSE, *others])

    assert a.overlaps(b) == is_shared


@given(merged)
def test_an_encoded_requirement_decodes_to_the_same(a: Requirement) -> None:
    assert Requirements.from_specs(a.to_specs()) == {"key": a}


@given(st.lists(st.one_of(specs("one"), specs("two"), specs("three")), max_size=6))
def test_encoded_requirements_decode_to_the_same(entries: list[RequirementSpec]) -> None:
    requirements = Requirements.from_specs(entries)

    assert Requirements.from_specs(requirements.to_specs()) == requirements


@given(merged, merged)
def test_a_node_and_a_pod_conflict_exactly_if_no_label_satisfies_both(
    node: Requirement, pod: Requirement
) -> None:
    clash = Requirements.from_requirements([node]).find_disjoint_key(Requirements.from_requirements([pod]))
    absent_serves_both = node.allows_absence and pod.allows_absence

    assert (clash is None) == (node.overlaps(pod) or absent_serves_both)


@given(merged)
def test_equal_requirements_have_equal_hashes(a: Requirement) -> None:
    twin = Requirements.from_specs(a.to_specs())["key"]

    assert hash(twin) == hash(a)
