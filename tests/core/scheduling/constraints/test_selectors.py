"""Node selectors and required node affinity on well-known labels."""

from collections.abc import Callable

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import NodeSelectorTerm, Pod
from dovetail.model.plan import Constraint
from tests.support.scheduling.builders import a_pod, a_pool, cluster, node_term, prefer_node, requirement
from tests.support.scheduling.instance_types import ON_DEMAND, SPOT, Z1, Z2, Z3
from tests.support.scheduling.plans import (
    expected_labels,
    new_node_of,
    reasons,
    reasons_of,
    unplaced,
    zones_of,
)
from tests.support.scheduling.solver import checked as solve

Asking = Callable[[str, str], Pod]

KNOWN = [
    (label_keys.NODEPOOL, "default"),
    (label_keys.ZONE, Z2),
    (label_keys.INSTANCE_TYPE, "default"),
    (label_keys.ARCH, "arm64"),
    (label_keys.OS, "windows"),
    (label_keys.CAPACITY_TYPE, SPOT),
    (label_keys.CAPACITY_TYPE, ON_DEMAND),
    ("failure-domain.beta.kubernetes.io/zone", Z2),
    ("beta.kubernetes.io/arch", "arm64"),
]
UNKNOWN = [
    (label_keys.NODEPOOL, "absent"),
    (label_keys.ZONE, "mars-1a"),
    (label_keys.INSTANCE_TYPE, "enormous"),
    (label_keys.ARCH, "riscv"),
    (label_keys.OS, "beos"),
    (label_keys.CAPACITY_TYPE, "stolen"),
]


def by_selector(key: str, value: str) -> Pod:
    return a_pod("p", node_selector={key: value})


def by_affinity(key: str, value: str) -> Pod:
    return a_pod("p", node_terms=[node_term((key, "In", [value]))])


# --- P14, P15 ---------------------------------------------------------------------------------


@pytest.mark.parametrize("asking", [by_selector, by_affinity], ids=["p14-selector", "p15-affinity"])
@pytest.mark.parametrize(("key", "value"), KNOWN)
def test_p14_p15_a_well_known_label_is_honoured(asking: Asking, key: str, value: str) -> None:
    pod = asking(key, value)

    plan = solve(cluster([pod]))

    node = new_node_of(plan, "p")
    stable = label_keys.normalize_key(key)
    assert expected_labels(node)[stable] == value
    assert node.requirements.get_or_exists(stable).has(value)
    assert all(kind.requirements.get_or_exists(stable).has(value) for kind in node.instance_types)


@pytest.mark.parametrize("asking", [by_selector, by_affinity], ids=["p14-selector", "p15-affinity"])
@pytest.mark.parametrize(("key", "value"), UNKNOWN)
def test_p14_p15_an_unknown_label_value_leaves_the_pod_pending(asking: Asking, key: str, value: str) -> None:
    pod = asking(key, value)

    plan = solve(cluster([pod, a_pod("other")]))

    assert unplaced(plan) == ["p"]


def test_p16_a_key_that_no_pool_defines_leaves_the_pod_pending() -> None:
    plan = solve(cluster([a_pod("p", node_selector={"foo": "bar"})]))

    assert reasons(plan) == {"p": [Constraint.REQUIREMENT]}


# --- P17, P18, S6, S16, S17: pods that no node can help ---------------------------------------


@pytest.mark.parametrize(
    "key", [label_keys.HOSTNAME, "karpenter.sh/test", "sub.karpenter.sh/test", label_keys.REGISTERED]
)
@pytest.mark.parametrize("asking", [by_selector, by_affinity], ids=["selector", "affinity"])
def test_p17_p18_s6_a_restricted_label_makes_a_pod_unschedulable_whatever_the_pools(
    asking: Asking, key: str
) -> None:
    pod = asking(key, "red")

    plan = solve(cluster([pod, a_pod("other")]))

    assert unplaced(plan) == ["p"]
    [reason] = reasons_of(plan, "p")
    assert (reason.nodepool, reason.constraint) == ("", Constraint.INVALID_POD)
    assert key in reason.message


def test_s16_a_pod_that_excludes_all_pools_gets_no_node() -> None:
    term = node_term((label_keys.NODEPOOL, "DoesNotExist"))

    plan = solve(cluster([a_pod("p", node_terms=[term])]))

    [reason] = reasons_of(plan, "p")
    assert (reason.nodepool, reason.constraint) == ("", Constraint.INVALID_POD)


def test_s16_excluding_all_pools_as_the_heaviest_preference_counts_too() -> None:
    preference = prefer_node(1, (label_keys.NODEPOOL, "DoesNotExist"))

    plan = solve(cluster([a_pod("p", preferred_node_terms=[preference])]))

    assert reasons(plan) == {"p": [Constraint.INVALID_POD]}


def test_s17_match_fields_make_a_pod_unschedulable() -> None:
    term = NodeSelectorTerm(fields=(requirement("metadata.name", "In", ["n"]),))

    plan = solve(cluster([a_pod("p", node_terms=[term])]))

    [reason] = reasons_of(plan, "p")
    assert reason.constraint is Constraint.INVALID_POD
    assert "matchFields" in reason.message


def test_an_empty_affinity_term_matches_no_node_as_kubernetes_has_it() -> None:
    # Karpenter reads it as no requirement and launches a node that kube-scheduler rejects.
    plan = solve(cluster([a_pod("p", node_terms=[NodeSelectorTerm()])]))

    assert unplaced(plan) == ["p"]


def test_an_empty_affinity_term_beside_another_leaves_the_other() -> None:
    terms = [NodeSelectorTerm(), node_term((label_keys.ZONE, "In", [Z3]))]

    plan = solve(cluster([a_pod("p", node_terms=terms)]))

    assert zones_of(plan) == {Z3: 1}


# --- P19, S1 to S5: labels and requirements of the pool ---------------------------------------


@pytest.mark.parametrize(
    "key", ["kubernetes.io/team", "sub.kubernetes.io/team", "k8s.io/team", "sub.k8s.io/team", "team"]
)
@pytest.mark.parametrize("defined", ["label", "requirement"])
def test_p19_keys_of_kubernetes_domains_are_usable_once_a_pool_defines_them(key: str, defined: str) -> None:
    pool = (
        a_pool(labels={key: "red"})
        if defined == "label"
        else a_pool(requirements=[(key, "In", ["red", "blue"])])
    )

    plan = solve(cluster([a_pod("p", node_selector={key: "red"})], [pool]))

    assert new_node_of(plan, "p").labels[key] == "red"


def test_s1_the_labels_of_the_pool_reach_the_nodes_of_pods_without_a_selector() -> None:
    plan = solve(cluster([a_pod("p")], [a_pool(labels={"team": "red"})]))

    assert new_node_of(plan, "p").labels["team"] == "red"


def test_s2_a_selector_against_the_pools_label_leaves_the_pod_pending() -> None:
    pod = a_pod("p", node_selector={"team": "blue"})

    plan = solve(cluster([pod], [a_pool(labels={"team": "red"})]))

    assert reasons(plan) == {"p": [Constraint.REQUIREMENT]}


def test_s3_one_of_several_values_may_be_the_pools_label() -> None:
    pod = a_pod("p", node_terms=[node_term(("team", "In", ["red", "blue"]))])

    plan = solve(cluster([pod], [a_pool(labels={"team": "red"})]))

    assert new_node_of(plan, "p").labels["team"] == "red"


def test_s4_the_pools_zone_is_the_nodes_zone() -> None:
    plan = solve(cluster([a_pod("p")], [a_pool(requirements=[(label_keys.ZONE, "In", [Z2])])]))

    assert zones_of(plan) == {Z2: 1}


@pytest.mark.parametrize(("zone", "expected"), [(Z2, {Z2: 1}), (Z3, {})])
def test_s5_the_pod_chooses_among_the_pools_zones_only(zone: str, expected: dict[str, int]) -> None:
    pool = a_pool(requirements=[(label_keys.ZONE, "In", [Z1, Z2])])

    plan = solve(cluster([a_pod("p", node_selector={label_keys.ZONE: zone})], [pool]))

    assert zones_of(plan) == expected
    assert unplaced(plan) == ([] if expected else ["p"])


# --- S8 to S11 --------------------------------------------------------------------------------


def test_s8_zones_may_be_excluded() -> None:
    term = node_term((label_keys.ZONE, "NotIn", [Z1, Z2, "mars-1a"]))

    plan = solve(cluster([a_pod("p", node_terms=[term])]))

    assert zones_of(plan) == {Z3: 1}


def test_s8_excluding_every_zone_leaves_the_pod_pending() -> None:
    term = node_term((label_keys.ZONE, "NotIn", [Z1, Z2, Z3, "mars-1a"]))

    plan = solve(cluster([a_pod("p", node_terms=[term])]))

    assert unplaced(plan) == ["p"]


def test_s9_a_preference_narrows_what_is_required() -> None:
    pod = a_pod(
        "p",
        node_terms=[node_term((label_keys.ZONE, "In", [Z1, Z2, Z3, "mars-1a"]))],
        preferred_node_terms=[prefer_node(1, (label_keys.ZONE, "In", [Z2, "mars-1a"]))],
    )

    plan = solve(cluster([pod]))

    assert zones_of(plan) == {Z2: 1}


@pytest.mark.parametrize(("operator", "values"), [("In", ["mars-1a"]), ("NotIn", [Z1, Z2, Z3, "mars-1a"])])
def test_s10_a_preference_that_cannot_be_met_is_dropped(operator: str, values: list[str]) -> None:
    pod = a_pod(
        "p",
        node_terms=[node_term((label_keys.ZONE, "In", [Z1, Z2, Z3]))],
        preferred_node_terms=[prefer_node(1, (label_keys.ZONE, operator, values))],
    )

    plan = solve(cluster([pod]))

    assert unplaced(plan) == []


def test_s11_selector_preference_and_requirement_are_all_met() -> None:
    pod = a_pod(
        "p",
        node_selector={label_keys.ZONE: Z3},
        node_terms=[
            node_term((label_keys.ZONE, "In", [Z1, Z3]), (label_keys.INSTANCE_TYPE, "In", ["default", "arm"]))
        ],
        preferred_node_terms=[prefer_node(1, (label_keys.INSTANCE_TYPE, "NotIn", ["default"]))],
    )

    plan = solve(cluster([pod]))

    node = new_node_of(plan, "p")
    assert (node.offering.zone, node.instance_type.name) == (Z3, "arm")
    assert node.offering.capacity_type == ON_DEMAND  # Nothing else is sold in that zone.
