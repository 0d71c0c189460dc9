"""Unschedulable reasons that other pods cause, and the reasons as a whole."""

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import Constraint, Plan
from tests.support.scheduling.builders import (
    a_daemon_set,
    a_node,
    a_pod,
    a_pool,
    affinity,
    cluster,
    node_term,
    pods,
    prefer_node,
    spread,
    taint,
    zone_spread,
)
from tests.support.scheduling.instance_types import Z1, Z2, Z3, incremental
from tests.support.scheduling.plans import reasons_of, unplaced
from tests.support.scheduling.solver import checked as solve
from tests.support.scheduling.unschedulable import says, the_only_reason

# --- Other pods -------------------------------------------------------------------------------

APP = {"app": "db"}


def test_an_anti_affinity_names_its_term() -> None:
    running = [
        a_node(f"n{i}", zone=zone, room=1, pods=[a_pod(f"db-{i}", labels=APP)])
        for i, zone in enumerate((Z1, Z2, Z3))
    ]
    pod = a_pod("p", anti_affinity=[affinity(APP, label_keys.ZONE)])

    reason = the_only_reason(pod, nodes=running)

    assert reason.constraint is Constraint.POD_ANTI_AFFINITY
    assert says(reason, label_keys.ZONE, "app", "db")


def test_an_affinity_to_pods_that_are_nowhere_names_its_term() -> None:
    pod = a_pod("p", affinity=[affinity(APP, label_keys.ZONE)])

    reason = the_only_reason(pod)

    assert reason.constraint is Constraint.POD_AFFINITY
    assert says(reason, label_keys.ZONE, "app", "db")


def test_a_spread_names_its_term_and_its_skew() -> None:
    running = [a_node("n", zone=Z1, labels={"team": "red"}, room=3, pods=pods(3, "db", labels=APP))]
    pod = a_pod("p", labels=APP, node_selector={"team": "red"}, spreads=[zone_spread(APP, max_skew=1)])
    pool = a_pool(labels={"team": "red"}, requirements=[(label_keys.ZONE, "In", [Z1])])
    elsewhere = a_pool("elsewhere", labels={"team": "red"}, limits={"cpu": "0"})

    plan = solve(cluster([pod], [pool, elsewhere], nodes=running))

    [reason] = [reason for reason in reasons_of(plan, "p") if reason.nodepool == "default"]
    assert reason.constraint is Constraint.TOPOLOGY_SPREAD
    assert says(reason, label_keys.ZONE, "app", "db")


def test_a_spread_over_an_unknown_key_names_the_key() -> None:
    reason = the_only_reason(a_pod("p", labels=APP, spreads=[spread("rack", APP)]))

    assert reason.constraint is Constraint.TOPOLOGY_SPREAD
    assert says(reason, "rack")


def test_a_port_that_a_daemon_set_has_everywhere_is_named() -> None:
    reason = the_only_reason(a_pod("p", ports=[8080]), daemon_sets=[a_daemon_set("a", ports=[8080])])

    assert reason.constraint is Constraint.HOST_PORT
    assert says(reason, "8080")


@pytest.mark.parametrize("key", [label_keys.HOSTNAME, label_keys.ZONE])
def test_no_toleration_is_said_to_help_a_pod_that_must_run_beside_pods_that_do_not_exist(key: str) -> None:
    pod = a_pod("p", affinity=[affinity({"app": "none"}, key)])

    reason = the_only_reason(pod, a_pool(taints=[taint("dedicated")]))

    assert reason.constraint is Constraint.TAINT
    assert says(reason, "nor would it fit with a toleration", key, "none")


@pytest.mark.parametrize("key", [label_keys.HOSTNAME, label_keys.ZONE])
def test_a_toleration_helps_the_first_pod_of_a_group_that_must_run_together(key: str) -> None:
    pod = a_pod("p", labels={"app": "web"}, affinity=[affinity({"app": "web"}, key)])

    reason = the_only_reason(pod, a_pool(taints=[taint("dedicated")]))

    assert says(reason, "would fit with the toleration")


@pytest.mark.parametrize(
    ("cpu", "answer"), [("1", "would fit with the toleration"), ("9", "nor would it fit with a toleration")]
)
def test_a_toleration_helps_a_pod_if_the_pods_it_must_run_beside_leave_room(cpu: str, answer: str) -> None:
    pod = a_pod("p", cpu=cpu, affinity=[affinity(APP, label_keys.HOSTNAME)])
    pool = a_pool(taints=[taint("dedicated")])
    running = a_node(
        "n", cpu="4", pool="default", pods=[a_pod("db", labels=APP)], taints=(taint("dedicated"),)
    )

    reason = the_only_reason(pod, pool, nodes=[running])

    assert says(reason, answer)


# --- The whole answer -------------------------------------------------------------------------


def both_pools(pod: Pod) -> Plan:
    pools = [
        a_pool("light", taints=[taint("dedicated")]),
        a_pool("heavy", weight=10, requirements=[(label_keys.ARCH, "In", ["amd64"])]),
    ]
    return solve(cluster([pod], pools))


def test_every_pool_gives_one_reason_by_weight_and_name() -> None:
    reasons = reasons_of(both_pools(a_pod("p", cpu="10")), "p")

    assert [(reason.nodepool, reason.constraint) for reason in reasons] == [
        ("heavy", Constraint.RESOURCES),
        ("light", Constraint.TAINT),
    ]


def test_an_unschedulable_pod_does_not_block_other_pods_of_the_nodepool() -> None:
    plan = solve(cluster([a_pod("huge", cpu="99"), a_pod("fine")]))

    assert unplaced(plan) == ["huge"]


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("p", cpu="1000"),
        a_pod("p", node_selector={"team": "red"}),
        a_pod("p", node_selector={label_keys.INSTANCE_TYPE: "nothing-like-it"}),
        a_pod("p", node_terms=[node_term((label_keys.INSTANCE_TYPE, "NotIn", ["t"]), ("x", "Exists"))]),
    ],
    ids=["cpu", "label", "type", "affinity"],
)
def test_a_message_is_one_line_however_large_the_catalog(pod: Pod) -> None:
    reason = the_only_reason(pod, types=incremental(300))

    assert "\n" not in reason.message
    assert len(reason.message) <= 300


def test_identical_pods_get_identical_reasons() -> None:
    plan = solve(cluster(pods(3, cpu="17")))

    messages = {reasons_of(plan, f"pod-{i}") for i in range(3)}
    assert len(messages) == 1


def test_the_reason_is_that_of_the_spec_without_preferences() -> None:
    pod = a_pod("p", cpu="17", preferred_node_terms=[prefer_node(1, (label_keys.ZONE, "In", ["mars-1a"]))])

    reason = the_only_reason(pod)

    assert reason.constraint is Constraint.RESOURCES
    assert "mars-1a" not in reason.message
