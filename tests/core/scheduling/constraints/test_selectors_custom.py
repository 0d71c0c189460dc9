"""Labels that only a NodePool or an instance type defines."""

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.settings import Packing, SchedulingSettings
from tests.support.scheduling.builders import Entry, a_pod, a_pool, cluster, node_term
from tests.support.scheduling.instance_types import INTEGER, SIZE, SPECIAL, incremental
from tests.support.scheduling.plans import expected_labels, new_node_of, node_of, type_names, unplaced
from tests.support.scheduling.solver import checked as solve

BOTH = pytest.mark.parametrize("packing", list(Packing))
KNOWS_SPECIAL = a_pool(requirements=[(SPECIAL, "NotIn", ["never"])])
"""A pool whose nodes may or may not be special, as their type is."""


# --- S7: numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "bound", "expected"),
    [("Gt", "8", "arm"), ("Gte", "16", "arm"), ("Lt", "8", "small"), ("Lte", "2", "small")],
)
def test_s7_the_pool_may_bound_a_number(operator: str, bound: str, expected: str) -> None:
    plan = solve(cluster([a_pod("p")], [a_pool(requirements=[(INTEGER, operator, [bound])])]))

    assert type_names(plan) == [expected]


@pytest.mark.parametrize(("operator", "bound", "expected"), [("Gt", "8", "arm"), ("Lt", "3", "small")])
def test_s7_the_pod_may_bound_a_number_that_the_pool_knows(operator: str, bound: str, expected: str) -> None:
    pod = a_pod("p", node_terms=[node_term((INTEGER, operator, [bound]))])

    plan = solve(cluster([pod], [a_pool(requirements=[(INTEGER, "Exists")])]))

    assert type_names(plan) == [expected]


# --- S12, S13: every operator -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "placed"),
    [
        (("team", "In", ["red"]), False),
        (("team", "Exists"), False),
        (("team", "NotIn", ["red"]), True),
        (("team", "DoesNotExist"), True),
        (("team", "Gt", ["1"]), False),
    ],
)
def test_s12_an_undefined_key_matches_only_requirements_that_allow_absence(
    entry: Entry, placed: bool
) -> None:
    plan = solve(cluster([a_pod("p", node_terms=[node_term(entry)])]))

    assert unplaced(plan) == ([] if placed else ["p"])
    if placed:
        assert "team" not in expected_labels(new_node_of(plan, "p"))


@pytest.mark.parametrize(
    ("entry", "placed"),
    [
        (("team", "In", ["red"]), True),
        (("team", "NotIn", ["red"]), False),
        (("team", "Exists"), True),
        (("team", "DoesNotExist"), False),
        (("team", "In", ["blue"]), False),
        (("team", "NotIn", ["blue"]), True),
    ],
)
@pytest.mark.parametrize("defined", ["label", "requirement"])
def test_s13_a_defined_key_is_compared(entry: Entry, placed: bool, defined: str) -> None:
    pool = (
        a_pool(labels={"team": "red"})
        if defined == "label"
        else a_pool(requirements=[("team", "In", ["red"])])
    )

    plan = solve(cluster([a_pod("p", node_terms=[node_term(entry)])], [pool]))

    assert unplaced(plan) == ([] if placed else ["p"])
    if placed:
        assert new_node_of(plan, "p").labels["team"] == "red"


def test_s12_a_pool_that_only_excludes_a_value_still_defines_the_key() -> None:
    pod = a_pod("p", node_terms=[node_term(("team", "Exists"))])

    plan = solve(cluster([pod], [a_pool(requirements=[("team", "NotIn", ["red"])])]))

    assert new_node_of(plan, "p").labels["team"] != "red"


@pytest.mark.parametrize(
    "entries",
    [
        [("team", "Exists"), ("team", "NotIn", ["red"])],
        [("team", "In", ["red"]), ("team", "In", ["blue"])],
        [("team", "Gt", ["5"]), ("team", "Lt", ["3"])],
    ],
)
def test_contradicting_requirements_do_not_add_up_to_no_requirement(entries: list[Entry]) -> None:
    # Karpenter reads these as "the label may be absent" and launches a node the pod cannot use.
    plan = solve(cluster([a_pod("p", node_terms=[node_term(*entries)])]))

    assert unplaced(plan) == ["p"]


# --- S14, S15: sharing ------------------------------------------------------------------------

TEAMS = a_pool(requirements=[("team", "In", ["red", "green", "blue"])])


@BOTH
def test_s14_overlapping_requirements_share_a_node_in_the_overlap(packing: Packing) -> None:
    pods = [
        a_pod("a", node_terms=[node_term(("team", "In", ["red", "green"]))]),
        a_pod("b", node_terms=[node_term(("team", "In", ["green", "blue"]))]),
    ]

    plan = solve(cluster(pods, [TEAMS]), SchedulingSettings(packing=packing))

    assert node_of(plan, "a") == node_of(plan, "b")
    assert new_node_of(plan, "a").labels["team"] == "green"


@BOTH
def test_s14_disjoint_requirements_get_different_nodes(packing: Packing) -> None:
    pods = [
        a_pod("a", node_terms=[node_term(("team", "In", ["red"]))]),
        a_pod("b", node_terms=[node_term(("team", "In", ["green", "blue"]))]),
    ]

    plan = solve(cluster(pods, [TEAMS]), SchedulingSettings(packing=packing))

    assert new_node_of(plan, "a").labels["team"] == "red"
    assert new_node_of(plan, "b").labels["team"] in {"green", "blue"}


@BOTH
def test_s15_exists_does_not_replace_a_fixed_value(packing: Packing) -> None:
    pods = [
        a_pod("a", cpu="200m", node_selector={"team": "red"}),
        a_pod("b", node_terms=[node_term(("team", "Exists"))]),
    ]
    pool = a_pool(requirements=[("team", "Exists")])

    plan = solve(cluster(pods, [pool]), SchedulingSettings(packing=packing))

    assert node_of(plan, "a") == node_of(plan, "b")
    assert new_node_of(plan, "a").labels["team"] == "red"


# --- S27, S28: labels of the provider ---------------------------------------------------------


@pytest.mark.parametrize(("size", "expected"), [("large", "fake-it-4"), ("small", "fake-it-0")])
def test_s27_a_label_of_the_instance_types_chooses_among_them(size: str, expected: str) -> None:
    pool = a_pool(requirements=[(SIZE, "Exists")])

    plan = solve(cluster([a_pod("p", node_selector={SIZE: size})], [pool], incremental(5)))

    assert type_names(plan) == [expected]


@pytest.mark.parametrize(("size", "kind"), [("large", "fake-it-0"), ("small", "fake-it-4")])
def test_s27_a_label_and_a_type_that_does_not_have_it_leave_the_pod_pending(size: str, kind: str) -> None:
    pod = a_pod("p", node_selector={SIZE: size, label_keys.INSTANCE_TYPE: kind})

    plan = solve(cluster([pod], [a_pool(requirements=[(SIZE, "Exists")])], incremental(5)))

    assert unplaced(plan) == ["p"]


def test_s28_a_label_that_only_some_types_have_may_be_required() -> None:
    pod = a_pod("p", node_terms=[node_term((SPECIAL, "Exists"))])

    plan = solve(cluster([pod], [KNOWS_SPECIAL], incremental(5)))

    assert type_names(plan) == ["fake-it-4"]
    assert expected_labels(plan.nodes[0])[SPECIAL] == "optional"


def test_s28_a_label_that_only_some_types_have_may_be_avoided() -> None:
    pod = a_pod("p", node_terms=[node_term((SPECIAL, "DoesNotExist"))])

    plan = solve(cluster([pod], [KNOWS_SPECIAL], incremental(5)))

    assert type_names(plan) == ["fake-it-0"]
    assert SPECIAL not in expected_labels(plan.nodes[0])
    assert "fake-it-4" not in [kind.name for kind in plan.nodes[0].instance_types]
