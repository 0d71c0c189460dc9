"""Requirements as users write them: the behaviours R1 to R10 of the checklist."""

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.kube.requirements import (
    NO_REQUIREMENTS,
    Operator,
    Requirement,
    Requirements,
    RequirementSpec,
)

A_TYPE = label_keys.WELL_KNOWN


def of(operator: str, *values: str, min_values: int | None = None, key: str = "key") -> Requirement:
    return Requirement.from_spec(RequirementSpec(key, Operator(operator), values, min_values))


def encoded(requirement: Requirement) -> list[tuple[str, tuple[str, ...]]]:
    return [(str(spec.operator), spec.values) for spec in requirement.to_specs()]


# --- R1: aliases ------------------------------------------------------------------------------


@pytest.mark.parametrize(("alias", "stable"), label_keys.NORMALIZED_LABELS.items())
def test_r1_an_alias_is_replaced_by_its_stable_key_in_entries_and_labels(alias: str, stable: str) -> None:
    assert Requirement.from_spec(RequirementSpec(alias, Operator.IN, ("a",))).key == stable
    assert Requirements.from_labels({alias: "a"}) == {stable: Requirement.one_of(stable, "a")}


def test_r1_an_alias_and_its_stable_key_are_one_requirement() -> None:
    both = Requirements.from_specs(
        [
            RequirementSpec("failure-domain.beta.kubernetes.io/zone", Operator.IN, ("a", "b")),
            RequirementSpec(label_keys.ZONE, Operator.NOT_IN, ("a",)),
        ]
    )

    assert both == {label_keys.ZONE: Requirement.one_of(label_keys.ZONE, "b")}


# --- R2, R3, R6: intersections ----------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [of("In", "a"), of("NotIn", "a"), of("Exists"), of("DoesNotExist"), of("Gt", "1"), of("Lte", "8")],
)
def test_r2_exists_leaves_the_other_side_and_does_not_exist_leaves_nothing(other: Requirement) -> None:
    kept = of("Exists").intersection(other)
    absent = of("DoesNotExist").intersection(other)

    assert (kept.operator, kept.values) == (other.operator, other.values)
    assert (absent.operator, absent.values) == (Operator.DOES_NOT_EXIST, frozenset())


def test_r2_value_sets_intersect_as_sets_do() -> None:
    assert of("In", "A").intersection(of("In", "B")).operator is Operator.DOES_NOT_EXIST
    assert of("In", "A", "B").intersection(of("NotIn", "A")) == of("In", "B")
    assert of("NotIn", "A").intersection(of("NotIn", "1", "2")) == of("NotIn", "A", "1", "2")


def test_r3_bounds_filter_values_and_meet_each_other() -> None:
    assert of("Gt", "1").intersection(of("In", "1", "9")) == of("In", "9")
    assert of("Gt", "9").intersection(of("Lt", "9")).operator is Operator.DOES_NOT_EXIST
    assert of("In", "A").intersection(of("Gt", "1")).operator is Operator.DOES_NOT_EXIST

    between = of("Gt", "1").intersection(of("Lt", "9"))
    assert (between.operator, between.gte, between.lte) == (Operator.EXISTS, 2, 8)

    without_two = of("NotIn", "1", "2").intersection(of("Gt", "1"))
    assert (without_two.operator, without_two.values) == (Operator.NOT_IN, frozenset({"2"}))
    assert without_two.gte == 2


def test_r6_inclusive_and_exclusive_bounds_mix() -> None:
    assert of("Gte", "5").intersection(of("Gt", "4")) == of("Gte", "5")
    assert of("Gte", "5").intersection(of("Gt", "5")) == of("Gte", "6")
    assert of("Lt", "5").intersection(of("Lte", "5")) == of("Lte", "4")


@pytest.mark.parametrize(("first", "second", "larger"), [(2, 3, 3), (3, 2, 3), (None, 2, 2)])
def test_r4_the_larger_min_values_is_kept(first: int | None, second: int | None, larger: int) -> None:
    both = of("Exists", min_values=first).intersection(of("In", "a", "b", "c", min_values=second))

    assert both.min_values == larger


def test_r4_min_values_are_kept_where_no_value_is_left() -> None:
    assert of("Gt", "9", min_values=2).intersection(of("Lt", "3")).min_values == 2


# --- R5: how bounds are reported and written --------------------------------------------------


@pytest.mark.parametrize("operator", ["Gt", "Lt", "Gte", "Lte"])
def test_r5_the_operator_of_a_bound_is_exists(operator: str) -> None:
    assert of(operator, "5").operator is Operator.EXISTS


def test_r5_exclusive_bounds_are_written_as_inclusive_ones() -> None:
    assert encoded(of("Gt", "1")) == [("Gte", ("2",))]
    assert encoded(of("Lt", "9")) == [("Lte", ("8",))]
    assert encoded(of("Gt", "1").intersection(of("Lt", "9"))) == [("Gte", ("2",)), ("Lte", ("8",))]


def test_excluded_values_are_still_written_beside_bounds() -> None:
    # Upstream loses the exclusion here; a node that violates it would be rejected later.
    assert encoded(of("NotIn", "5").intersection(of("Gt", "1"))) == [("Gte", ("2",)), ("NotIn", ("5",))]


def test_min_values_are_written_with_every_entry() -> None:
    both = of("Gt", "1", min_values=2).intersection(of("Lt", "9"))

    assert [spec.min_values for spec in both.to_specs()] == [2, 2]


def test_a_bound_above_the_largest_integer_allows_nothing() -> None:
    beyond = of("Gt", str(2**63 - 1))

    assert beyond.operator is Operator.DOES_NOT_EXIST
    assert not beyond.allows_absence


@pytest.mark.parametrize("value", ["", "a", "1.5", "1_0", " 1", "٣", "9" * 30])
def test_a_value_that_is_no_integer_in_kubernetes_matches_no_bound(value: str) -> None:
    assert not of("Gte", "0").has(value)
    assert not of("Lte", "100").has(value)


# --- R7, R8: compatibility --------------------------------------------------------------------

ZONE_OF = {
    "anything": None,
    "exists": of("Exists", key=label_keys.ZONE),
    "absent": of("DoesNotExist", key=label_keys.ZONE),
    "in A": of("In", "A", key=label_keys.ZONE),
    "in B": of("In", "B", key=label_keys.ZONE),
    "not in A": of("NotIn", "A", key=label_keys.ZONE),
    "in 1": of("In", "1", key=label_keys.ZONE),
    "in 9": of("In", "9", key=label_keys.ZONE),
    "over 5": of("Gt", "5", key=label_keys.ZONE),
    "under 5": of("Lt", "5", key=label_keys.ZONE),
}
ACCEPTED = {
    # Node → requirements that it satisfies if the key is well known.
    "anything": set(ZONE_OF),
    "exists": set(ZONE_OF) - {"absent"},
    "absent": {"anything", "absent", "not in A"},
    "in A": {"anything", "exists", "in A"},
    "in B": {"anything", "exists", "in B", "not in A"},
    "not in A": set(ZONE_OF) - {"in A"},
    "in 1": {"anything", "exists", "in 1", "not in A", "under 5"},
    "in 9": {"anything", "exists", "in 9", "not in A", "over 5"},
    "over 5": {"anything", "exists", "in 9", "not in A", "over 5"},
    "under 5": {"anything", "exists", "in 1", "not in A", "under 5"},
}


def some(name: str) -> Requirements:
    zone = ZONE_OF[name]
    return NO_REQUIREMENTS if zone is None else Requirements.from_requirements([zone])


@pytest.mark.parametrize("node", ZONE_OF)
@pytest.mark.parametrize("required", ZONE_OF)
def test_r7_a_new_node_satisfies_requirements_that_overlap_or_may_both_be_absent(
    node: str, required: str
) -> None:
    conflict = some(node).find_conflict(some(required), allow_undefined=A_TYPE)

    assert (conflict is None) == (required in ACCEPTED[node])


@pytest.mark.parametrize("required", ZONE_OF)
def test_r8_an_existing_node_without_the_label_satisfies_only_requirements_that_allow_absence(
    required: str,
) -> None:
    conflict = NO_REQUIREMENTS.find_conflict(some(required))

    assert (conflict is None) == (required in {"anything", "absent", "not in A"})


@pytest.mark.parametrize(
    "entries",
    [
        [of("Exists"), of("NotIn", "a")],
        [of("In", "a"), of("In", "b")],
        [of("In", "a"), of("NotIn", "a")],
        [of("Gt", "5"), of("NotIn", "7")],
        [of("Gt", "5"), of("Lt", "3")],
    ],
)
def test_a_required_label_must_exist_whatever_else_is_required(entries: list[Requirement]) -> None:
    # Upstream reads these as "may be absent" and launches a node that kube-scheduler rejects.
    required = Requirements.from_requirements(entries)

    conflict = NO_REQUIREMENTS.find_conflict(required)

    assert conflict is not None
    assert conflict.provided is None


def test_compatibility_checks_only_the_keys_of_the_pod() -> None:
    node = Requirements.from_requirements([of("In", "a", key="team")])

    assert node.find_conflict(NO_REQUIREMENTS) is None
    assert NO_REQUIREMENTS.find_conflict(node) is not None


def test_the_conflict_names_the_key_and_both_sides() -> None:
    node = Requirements.from_requirements([of("In", "a", "b", key="team")])

    conflict = node.find_conflict(Requirements.from_requirements([of("In", "c", key="team")]))

    assert conflict is not None
    assert conflict.key == "team"
    assert "[c]" in str(conflict)
    assert "[a, b]" in str(conflict)


# --- R9: hints --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("zone", label_keys.ZONE),
        ("node.io/zone", label_keys.ZONE),
        ("topology.kubernetes.io/zones", label_keys.ZONE),
        ("nodepool", label_keys.NODEPOOL),
        ("region", label_keys.REGION),
        ("arch", label_keys.ARCH),
        ("capacity-type", label_keys.CAPACITY_TYPE),
        ("karpenter.sh/capacitytype", label_keys.CAPACITY_TYPE),
        ("instance-family", "karpenter.k8s.aws/instance-family"),
        ("karpenter.sh/provisioner-name", label_keys.NODEPOOL),
    ],
)
def test_r9_an_unknown_key_gets_the_most_similar_key_as_suggestion(misspelt: str, meant: str) -> None:
    conflict = NO_REQUIREMENTS.find_conflict(Requirements.from_labels({misspelt: "a"}))

    assert f"did you mean {meant!r}" in str(conflict)


def test_r9_a_removed_key_is_named_as_removed_without_a_suggestion() -> None:
    removed = Requirements.from_labels({"karpenter.k8s.aws/instance-pods": "58"})

    text = str(NO_REQUIREMENTS.find_conflict(removed))

    assert "'karpenter.k8s.aws/instance-pods' was removed in v1beta1" in text
    assert "did you mean" not in text


@pytest.mark.parametrize("unknown", ["team", "example.com/tier", "foo"])
def test_r9_a_key_without_similar_keys_gets_no_hint(unknown: str) -> None:
    conflict = NO_REQUIREMENTS.find_conflict(Requirements.from_labels({unknown: "a"}))

    assert unknown in str(conflict)
    assert "did you mean" not in str(conflict)


# --- R10: text --------------------------------------------------------------------------------


def test_r10_a_set_is_written_sorted_and_without_the_hostname() -> None:
    text = str(
        Requirements.from_requirements(
            [
                of("In", "z", "y", key="b"),
                of("Exists", key="a"),
                Requirement.one_of(label_keys.HOSTNAME, "h"),
                of("Gte", "3", key="c"),
            ]
        )
    )

    assert text == "a Exists; b In [y, z]; c >= 3"


def test_r10_more_than_five_values_are_abbreviated() -> None:
    assert str(of("In", *"abcdefg")) == "key In [a, b, c, d, e and 2 more]"
    assert str(of("In", *"abcde")) == "key In [a, b, c, d, e]"


def test_contradictory_requirements_are_reported() -> None:
    text = str(of("In", "a").intersection(of("In", "b")))

    assert text.startswith("key ")
    assert "exclude each other" in text


# --- Sets -------------------------------------------------------------------------------------


def test_a_key_that_is_missing_allows_anything_and_is_not_stored() -> None:
    assert NO_REQUIREMENTS.get_or_exists("key") == Requirement.exists("key")
    assert "key" not in NO_REQUIREMENTS


def test_requirements_without_a_key_no_longer_require_it() -> None:
    both = Requirements.from_requirements([of("Exists", key="a"), of("Exists", key="b")])

    assert set(both.without("a")) == {"b"}
    assert set(both) == {"a", "b"}


def test_adding_requirements_does_not_change_the_original() -> None:
    before = Requirements.from_requirements([of("In", "a", "b")])

    after = before.intersection([of("NotIn", "a")])

    assert after == {"key": of("In", "b")}
    assert before == {"key": of("In", "a", "b")}
