"""Unschedulable reasons: what a user must learn about a pod without a node.

Messages are checked for the facts they must hold (names, numbers), not for
their wording.
"""

import re

import pytest

from dovetail.core.scheduling.solver import solve
from dovetail.core.scheduling.unschedulable import find_nodepools_without_types
from dovetail.model import labels as label_keys
from dovetail.model.plan import Constraint
from dovetail.model.settings import MinValuesPolicy
from tests.support.scheduling.builders import a_daemon_set, a_node, a_pod, a_pool, cluster, taint, tolerate
from tests.support.scheduling.instance_types import DEFAULT_TYPES, GPU_A, Z1, Z2, Z3, a_type, offerings
from tests.support.scheduling.unschedulable import says, the_only_reason

# --- Resources --------------------------------------------------------------------------------


def test_too_much_cpu_names_the_type_that_comes_closest_and_what_it_lacks() -> None:
    reason = the_only_reason(a_pod("p", cpu="17"))

    assert (reason.nodepool, reason.constraint) == ("default", Constraint.RESOURCES)
    assert says(reason, "cpu", "arm", "17")
    assert "15900m" in reason.message or "15.9" in reason.message or "1100m" in reason.message


def test_too_much_memory_names_the_type_that_comes_closest_among_those_allowed() -> None:
    pool = a_pool(requirements=[(label_keys.ARCH, "In", ["amd64"])])

    reason = the_only_reason(a_pod("p", memory="5Gi"), pool)

    assert reason.constraint is Constraint.RESOURCES
    assert says(reason, "memory", "5Gi")
    assert any(name in reason.message for name in ("default", "gpu-a", "gpu-b", "single-pod"))


def test_too_many_devices_name_the_type_with_the_most() -> None:
    reason = the_only_reason(a_pod("p", more={GPU_A: 3}))

    assert reason.constraint is Constraint.RESOURCES
    assert says(reason, GPU_A, "3", "gpu-a", "2")


def test_a_resource_that_no_type_has_is_named() -> None:
    reason = the_only_reason(a_pod("p", more={"example.com/fpga": 1}))

    assert reason.constraint is Constraint.RESOURCES
    assert says(reason, "example.com/fpga")
    assert "closest" not in reason.message  # No type comes close.


def test_megacores_get_a_hint_for_millicores() -> None:
    reason = the_only_reason(a_pod("p", cpu="100M"))

    assert reason.constraint is Constraint.RESOURCES
    assert re.search(r"\b100m\b", reason.message)


def test_a_pod_that_fits_only_without_daemon_sets_gets_that_reason() -> None:
    daemon = a_daemon_set("agent", cpu="10")

    reason = the_only_reason(a_pod("p", cpu="10"), daemon_sets=[daemon])

    assert reason.constraint is Constraint.RESOURCES
    assert says(reason, "cpu", "DaemonSet")


def test_devices_that_only_other_types_have_are_not_reported_as_missing() -> None:
    pod = a_pod("p", more={GPU_A: 1}, node_selector={label_keys.ARCH: "arm64"})

    reason = the_only_reason(pod)

    assert says(reason, GPU_A)
    assert "arm64" in reason.message or "gpu-a" in reason.message


def test_a_pod_limit_used_up_by_daemon_sets_is_named() -> None:
    pool = a_pool(requirements=[(label_keys.INSTANCE_TYPE, "In", ["single-pod"])])

    reason = the_only_reason(a_pod("p"), pool, daemon_sets=[a_daemon_set("agent")])

    assert reason.constraint is Constraint.RESOURCES
    assert says(reason, "pods", "DaemonSet", "single-pod")


# --- Taints and labels ------------------------------------------------------------------------


def test_a_taint_is_named_with_the_toleration_that_would_help() -> None:
    reason = the_only_reason(a_pod("p"), a_pool(taints=[taint("dedicated", "gpu")]))

    assert (reason.nodepool, reason.constraint) == ("default", Constraint.TAINT)
    assert says(reason, "dedicated=gpu:NoSchedule", "tolerat")


def test_the_taint_named_is_the_one_that_is_not_tolerated() -> None:
    pool = a_pool(taints=[taint("first"), taint("second")])

    reason = the_only_reason(a_pod("p", tolerations=[tolerate("first")]), pool)

    assert says(reason, "second:NoSchedule")
    assert "first" not in reason.message


def test_every_taint_that_is_not_tolerated_is_named_with_its_toleration() -> None:
    pool = a_pool(taints=[taint("first", "a"), taint("second"), taint("third")])

    reason = the_only_reason(a_pod("p", tolerations=[tolerate("third")]), pool)

    assert says(reason, "first=a:NoSchedule", "second:NoSchedule", "would fit with the tolerations")
    assert says(reason, "{key: first, operator: Equal, value: a,", "{key: second, operator: Exists,")
    assert "third" not in reason.message


@pytest.mark.parametrize(
    ("key", "values", "misspelt", "meant"),
    [
        (label_keys.ARCH, ["arm64"], "amd46", "amd64"),
        ("team", ["Red", "blue"], "red", "Red"),
        (label_keys.NODEPOOL, [], "defualt", "default"),
    ],
)
def test_a_misspelt_value_of_a_label_that_the_nodepool_names_gets_a_hint(
    key: str, values: list[str], misspelt: str, meant: str
) -> None:
    pool = a_pool(requirements=[(key, "In", values)] if values else [])

    reason = the_only_reason(a_pod("p", node_selector={key: misspelt}), pool)

    assert reason.constraint is Constraint.REQUIREMENT
    assert says(reason, f"(did you mean {meant!r}?)", "this NodePool has")


def test_values_that_yaml_would_not_read_as_text_are_quoted_in_suggestions() -> None:
    tainted = a_pool(taints=[taint("dedicated", value="true")])

    assert says(the_only_reason(a_pod("p"), tainted), 'operator: Equal, value: "true",')
    assert says(the_only_reason(a_pod("p", node_selector={"rack": "12"}), a_pool()), '{rack: "12"}')


def test_thousands_of_wrong_values_cost_little_time_and_the_first_get_a_hint() -> None:
    pool = a_pool(requirements=[("team", "In", [f"team-{number}-name" for number in range(1000)])])
    pods = [a_pod(f"p{number:04}", node_selector={"team": f"team-{number}-nmae"}) for number in range(100)]

    plan = solve(cluster(pods, [pool]))

    hints = ["did you mean" in unschedulable.reasons[0].message for unschedulable in plan.unschedulable]
    assert any(hints)
    assert not all(hints)


def test_a_number_is_not_corrected_to_another_one() -> None:
    pool = a_pool(requirements=[("rack", "In", ["1234"])])

    reason = the_only_reason(a_pod("p", node_selector={"rack": "1235"}), pool)

    assert "did you mean" not in reason.message


@pytest.mark.parametrize(
    ("key", "origin", "advice"),
    [
        ("eks.amazonaws.com/nodegroup", "managed node groups", "remove the selector"),
        ("eks.amazonaws.com/compute-type", "Fargate", "remove the selector"),
        (
            "eks.amazonaws.com/instance-category",
            "EKS Auto Mode",
            "select karpenter.k8s.aws/instance-category instead",
        ),
    ],
)
def test_a_label_of_nodes_of_eks_is_not_suggested_for_a_nodepool(key: str, origin: str, advice: str) -> None:
    reason = the_only_reason(a_pod("p", node_selector={key: "x"}))

    assert says(reason, key, f"only nodes of {origin}" if "Fargate" not in origin else origin, advice)
    assert "would match" not in reason.message


@pytest.mark.parametrize(
    ("key", "suggestion"),
    [("zone", label_keys.ZONE), ("karpenter.sh/capacitytype", label_keys.CAPACITY_TYPE)],
)
def test_a_label_that_resembles_a_known_one_gets_a_hint(key: str, suggestion: str) -> None:
    reason = the_only_reason(a_pod("p", node_selector={key: "x"}))

    assert says(reason, key, suggestion)


def test_an_undefined_label_is_named_and_what_would_define_it() -> None:
    reason = the_only_reason(a_pod("p", node_selector={"team": "red"}))

    assert (reason.nodepool, reason.constraint) == ("default", Constraint.REQUIREMENT)
    assert says(reason, "team")


def test_a_value_that_the_pool_excludes_gets_the_list_of_its_values() -> None:
    pool = a_pool(requirements=[("team", "In", ["red", "blue"])])

    reason = the_only_reason(a_pod("p", node_selector={"team": "green"}), pool)

    assert reason.constraint is Constraint.REQUIREMENT
    assert says(reason, "team", "green", "red", "blue")


@pytest.mark.parametrize(
    ("key", "value", "there_are"),
    [(label_keys.ZONE, "mars-1a", [Z1, Z2, Z3]), (label_keys.ARCH, "x86_64", ["amd64", "arm64"])],
)
def test_a_value_that_no_type_has_gets_the_list_of_values(key: str, value: str, there_are: list[str]) -> None:
    reason = the_only_reason(a_pod("p", node_selector={key: value}))

    assert reason.constraint in (Constraint.REQUIREMENT, Constraint.OFFERING)
    assert says(reason, key, value, *there_are)


def test_a_capacity_type_with_a_typo_gets_a_hint_with_the_valid_ones() -> None:
    reason = the_only_reason(a_pod("p", node_selector={label_keys.CAPACITY_TYPE: "on_demand"}))

    assert (reason.nodepool, reason.constraint) == ("", Constraint.INVALID_POD)
    assert says(reason, "on_demand", "on-demand", "spot")


def test_conflicting_requirements_are_distinguished_from_size() -> None:
    pod = a_pod("p", node_selector={label_keys.ARCH: "arm64", label_keys.INSTANCE_TYPE: "small"})

    reason = the_only_reason(pod)

    assert reason.constraint is Constraint.REQUIREMENT
    assert says(reason, label_keys.ARCH, "arm64", label_keys.INSTANCE_TYPE, "small")


# --- Offerings, limits, minValues -------------------------------------------------------------


def test_a_fitting_type_without_an_available_offering_is_named() -> None:
    types = [a_type("gone", offered=offerings(1.0, closed=True))]

    reason = the_only_reason(a_pod("p"), types=types)

    assert reason.constraint is Constraint.OFFERING
    assert says(reason, "gone")


def test_a_zone_without_the_capacity_type_gives_an_offering_reason() -> None:
    pod = a_pod("p", node_selector={label_keys.ZONE: Z3, label_keys.CAPACITY_TYPE: "spot"})

    reason = the_only_reason(pod)

    assert reason.constraint is Constraint.OFFERING
    assert says(reason, Z3, "spot")


def test_a_limit_says_what_is_left_and_what_the_smallest_node_would_need() -> None:
    used = a_node("n", cpu=4, pool="default", room=0)

    reason = the_only_reason(a_pod("p"), a_pool(limits={"cpu": "5"}), nodes=[used])

    assert (reason.nodepool, reason.constraint) == ("default", Constraint.LIMITS)
    assert says(reason, "cpu", "1", "small", "2")


def test_a_reached_limit_names_the_smallest_type_that_would_fit() -> None:
    used = a_node("n", cpu=4, pool="default", room=0)

    reason = the_only_reason(a_pod("p"), a_pool(limits={"cpu": "4"}), nodes=[used])

    assert says(reason, "cpu", "0", "small", "2")


def test_a_limit_on_nodes_is_named() -> None:
    used = a_node("n", pool="default", room=0)

    reason = the_only_reason(a_pod("p"), a_pool(limits={"nodes": "1"}), nodes=[used])

    assert reason.constraint is Constraint.LIMITS
    assert says(reason, "nodes", "1")


def test_min_values_say_how_many_there_would_have_to_be_and_how_many_there_are() -> None:
    pool = a_pool(requirements=[(label_keys.INSTANCE_TYPE, "Exists", [], 9)])

    reason = the_only_reason(a_pod("p"), pool)

    assert reason.constraint is Constraint.MIN_VALUES
    assert says(reason, label_keys.INSTANCE_TYPE, "9", str(len(DEFAULT_TYPES)))


# --- NodePools that exclude every instance type ----------------------------------------------


def test_nodepools_whose_requirements_exclude_every_type_are_named() -> None:
    snapshot = cluster(
        pools=[
            a_pool("usable"),
            a_pool("misspelt", [(label_keys.INSTANCE_TYPE, "In", ["m5.lagre"])]),
            a_pool("nowhere", [(label_keys.ZONE, "In", ["mars-1a"])]),
        ]
    )

    excluded = find_nodepools_without_types(snapshot, MinValuesPolicy.STRICT)

    assert sorted(excluded) == ["misspelt", "nowhere"]
    assert all("requirements exclude all" in message for message in excluded.values())


@pytest.mark.parametrize(("policy", "names"), [("Strict", ["diverse"]), ("BestEffort", [])])
def test_nodepools_whose_min_values_cannot_be_met_are_named_unless_they_are_relaxed(
    policy: str, names: list[str]
) -> None:
    pool = a_pool("diverse", [(label_keys.INSTANCE_TYPE, "Exists", [], 50)])

    excluded = find_nodepools_without_types(cluster(pools=[pool]), MinValuesPolicy(policy))

    assert list(excluded) == names
    assert all(
        f"{label_keys.INSTANCE_TYPE}: {len(DEFAULT_TYPES)} of 50" in text for text in excluded.values()
    )


def test_a_nodepool_without_available_offerings_is_named() -> None:
    sold_out = a_type("sold-out", offered=offerings(1.0, closed=True))

    excluded = find_nodepools_without_types(cluster(types=[sold_out]), MinValuesPolicy.STRICT)

    assert list(excluded) == ["default"]
