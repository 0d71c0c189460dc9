"""Refusals: what a user must learn about a pod that gets no node.

Messages are checked for the facts they must hold (names, numbers), not for
their wording.
"""

import re

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.plan import Constraint
from tests.support.build import (
    a_daemon_set,
    a_node,
    a_pod,
    a_pool,
    taint,
    tolerate,
)
from tests.support.catalog import DEFAULT_TYPES, GPU_A, Z1, Z2, Z3, a_type, offerings
from tests.support.refusals import says, the_refusal

# --- Resources --------------------------------------------------------------------------------


def test_too_much_cpu_names_the_type_that_comes_closest_and_what_it_lacks() -> None:
    refusal = the_refusal(a_pod("p", cpu="17"))

    assert (refusal.nodepool, refusal.constraint) == ("default", Constraint.RESOURCES)
    assert says(refusal, "cpu", "arm", "17")
    assert "15900m" in refusal.message or "15.9" in refusal.message or "1100m" in refusal.message


def test_too_much_memory_names_the_type_that_comes_closest_among_those_allowed() -> None:
    pool = a_pool(requirements=[(label_keys.ARCH, "In", ["amd64"])])

    refusal = the_refusal(a_pod("p", memory="5Gi"), pool)

    assert refusal.constraint is Constraint.RESOURCES
    assert says(refusal, "memory", "5Gi")
    assert any(name in refusal.message for name in ("default", "gpu-a", "gpu-b", "single-pod"))


def test_too_many_devices_name_the_type_with_the_most() -> None:
    refusal = the_refusal(a_pod("p", more={GPU_A: 3}))

    assert refusal.constraint is Constraint.RESOURCES
    assert says(refusal, GPU_A, "3", "gpu-a", "2")


def test_a_resource_that_no_type_has_is_named() -> None:
    refusal = the_refusal(a_pod("p", more={"example.com/fpga": 1}))

    assert refusal.constraint is Constraint.RESOURCES
    assert says(refusal, "example.com/fpga")
    assert "closest" not in refusal.message  # No type comes close.


def test_megacores_are_answered_with_millicores() -> None:
    refusal = the_refusal(a_pod("p", cpu="100M"))

    assert refusal.constraint is Constraint.RESOURCES
    assert re.search(r"\b100m\b", refusal.message)


def test_a_pod_that_only_daemons_push_out_says_so() -> None:
    daemon = a_daemon_set("agent", cpu="10")

    refusal = the_refusal(a_pod("p", cpu="10"), daemon_sets=[daemon])

    assert refusal.constraint is Constraint.RESOURCES
    assert says(refusal, "cpu", "DaemonSet")


def test_devices_that_only_other_types_have_are_not_said_to_be_missing_altogether() -> None:
    pod = a_pod("p", more={GPU_A: 1}, node_selector={label_keys.ARCH: "arm64"})

    refusal = the_refusal(pod)

    assert says(refusal, GPU_A)
    assert "arm64" in refusal.message or "gpu-a" in refusal.message


def test_a_pod_count_used_up_by_daemons_says_so() -> None:
    pool = a_pool(requirements=[(label_keys.INSTANCE_TYPE, "In", ["single-pod"])])

    refusal = the_refusal(a_pod("p"), pool, daemon_sets=[a_daemon_set("agent")])

    assert refusal.constraint is Constraint.RESOURCES
    assert says(refusal, "pods", "DaemonSet", "single-pod")


# --- Taints and labels ------------------------------------------------------------------------


def test_a_taint_is_named_with_the_toleration_that_would_help() -> None:
    refusal = the_refusal(a_pod("p"), a_pool(taints=[taint("dedicated", "gpu")]))

    assert (refusal.nodepool, refusal.constraint) == ("default", Constraint.TAINT)
    assert says(refusal, "dedicated=gpu:NoSchedule", "tolerat")


def test_the_taint_named_is_the_one_that_is_not_tolerated() -> None:
    pool = a_pool(taints=[taint("first"), taint("second")])

    refusal = the_refusal(a_pod("p", tolerations=[tolerate("first")]), pool)

    assert says(refusal, "second:NoSchedule")
    assert "first" not in refusal.message


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("zone", label_keys.ZONE), ("karpenter.sh/capacitytype", label_keys.CAPACITY_TYPE)],
)
def test_a_label_that_resembles_a_known_one_is_answered_with_it(asked: str, meant: str) -> None:
    refusal = the_refusal(a_pod("p", node_selector={asked: "x"}))

    assert says(refusal, asked, meant)


def test_a_label_that_nobody_defines_is_named_and_what_would_define_it() -> None:
    refusal = the_refusal(a_pod("p", node_selector={"team": "red"}))

    assert (refusal.nodepool, refusal.constraint) == ("default", Constraint.REQUIREMENT)
    assert says(refusal, "team")


def test_a_value_that_the_pool_does_not_offer_is_answered_with_those_it_does() -> None:
    pool = a_pool(requirements=[("team", "In", ["red", "blue"])])

    refusal = the_refusal(a_pod("p", node_selector={"team": "green"}), pool)

    assert refusal.constraint is Constraint.REQUIREMENT
    assert says(refusal, "team", "green", "red", "blue")


@pytest.mark.parametrize(
    ("key", "value", "there_are"),
    [
        (label_keys.ZONE, "mars-1a", [Z1, Z2, Z3]),
        (label_keys.ARCH, "x86_64", ["amd64", "arm64"]),
    ],
)
def test_a_value_that_no_type_offers_is_answered_with_those_there_are(
    key: str, value: str, there_are: list[str]
) -> None:
    refusal = the_refusal(a_pod("p", node_selector={key: value}))

    assert refusal.constraint in (Constraint.REQUIREMENT, Constraint.OFFERING)
    assert says(refusal, key, value, *there_are)


def test_a_capacity_type_with_a_typo_is_answered_with_those_there_are() -> None:
    refusal = the_refusal(a_pod("p", node_selector={label_keys.CAPACITY_TYPE: "on_demand"}))

    assert (refusal.nodepool, refusal.constraint) == ("", Constraint.INVALID)
    assert says(refusal, "on_demand", "on-demand", "spot")


def test_demands_that_exclude_each_other_are_told_apart_from_size() -> None:
    pod = a_pod("p", node_selector={label_keys.ARCH: "arm64", label_keys.INSTANCE_TYPE: "small"})

    refusal = the_refusal(pod)

    assert refusal.constraint is Constraint.REQUIREMENT
    assert says(refusal, label_keys.ARCH, "arm64", label_keys.INSTANCE_TYPE, "small")


# --- Offerings, limits, minValues -------------------------------------------------------------


def test_a_type_that_fits_but_cannot_be_bought_is_named() -> None:
    types = [a_type("gone", offered=offerings(1.0, closed=True))]

    refusal = the_refusal(a_pod("p"), types=types)

    assert refusal.constraint is Constraint.OFFERING
    assert says(refusal, "gone")


def test_a_zone_in_which_the_capacity_type_is_not_sold_is_an_offering_matter() -> None:
    pod = a_pod("p", node_selector={label_keys.ZONE: Z3, label_keys.CAPACITY_TYPE: "spot"})

    refusal = the_refusal(pod)

    assert refusal.constraint is Constraint.OFFERING
    assert says(refusal, Z3, "spot")


def test_a_limit_says_what_is_left_and_what_the_smallest_node_would_need() -> None:
    used = a_node("n", cpu=4, pool="default", room=0)

    refusal = the_refusal(a_pod("p"), a_pool(limits={"cpu": "5"}), nodes=[used])

    assert (refusal.nodepool, refusal.constraint) == ("default", Constraint.LIMITS)
    assert says(refusal, "cpu", "1", "small", "2")


def test_a_limit_that_is_used_up_names_the_smallest_type_that_would_do() -> None:
    used = a_node("n", cpu=4, pool="default", room=0)

    refusal = the_refusal(a_pod("p"), a_pool(limits={"cpu": "4"}), nodes=[used])

    assert says(refusal, "cpu", "0", "small", "2")


def test_a_limit_on_nodes_says_so() -> None:
    used = a_node("n", pool="default", room=0)

    refusal = the_refusal(a_pod("p"), a_pool(limits={"nodes": "1"}), nodes=[used])

    assert refusal.constraint is Constraint.LIMITS
    assert says(refusal, "nodes", "1")


def test_min_values_say_how_many_there_would_have_to_be_and_how_many_there_are() -> None:
    pool = a_pool(requirements=[(label_keys.INSTANCE_TYPE, "Exists", [], 9)])

    refusal = the_refusal(a_pod("p"), pool)

    assert refusal.constraint is Constraint.MIN_VALUES
    assert says(refusal, label_keys.INSTANCE_TYPE, "9", str(len(DEFAULT_TYPES)))
