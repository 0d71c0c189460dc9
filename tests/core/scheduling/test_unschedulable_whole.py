"""Refusals that come from other pods, and the shape of the whole answer."""

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import Constraint, Plan
from tests.support.build import (
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
from tests.support.catalog import Z1, Z2, Z3, incremental
from tests.support.outcome import refusals_of, unplaced
from tests.support.refusals import says, the_refusal
from tests.support.solving import checked as solve

# --- Other pods -------------------------------------------------------------------------------

APP = {"app": "db"}


def test_an_anti_affinity_names_its_term() -> None:
    running = [
        a_node(f"n{i}", zone=zone, room=1, pods=[a_pod(f"db-{i}", labels=APP)])
        for i, zone in enumerate((Z1, Z2, Z3))
    ]
    pod = a_pod("p", anti_affinity=[affinity(APP, label_keys.ZONE)])

    refusal = the_refusal(pod, nodes=running)

    assert refusal.constraint is Constraint.ANTI_AFFINITY
    assert says(refusal, label_keys.ZONE, "app", "db")


def test_an_affinity_to_pods_that_are_nowhere_names_its_term() -> None:
    pod = a_pod("p", affinity=[affinity(APP, label_keys.ZONE)])

    refusal = the_refusal(pod)

    assert refusal.constraint is Constraint.AFFINITY
    assert says(refusal, label_keys.ZONE, "app", "db")


def test_a_spread_names_its_term_and_its_skew() -> None:
    running = [a_node("n", zone=Z1, labels={"team": "red"}, room=3, pods=pods(3, "db", labels=APP))]
    pod = a_pod(
        "p", labels=APP, node_selector={"team": "red"}, spreads=[zone_spread(APP, max_skew=1)]
    )
    pool = a_pool(labels={"team": "red"}, requirements=[(label_keys.ZONE, "In", [Z1])])
    elsewhere = a_pool("elsewhere", labels={"team": "red"}, limits={"cpu": "0"})

    plan = solve(cluster([pod], [pool, elsewhere], nodes=running))

    [refusal] = [one for one in refusals_of(plan, "p") if one.nodepool == "default"]
    assert refusal.constraint is Constraint.SPREAD
    assert says(refusal, label_keys.ZONE, "app", "db")


def test_a_spread_over_a_key_that_nobody_has_names_the_key() -> None:
    refusal = the_refusal(a_pod("p", labels=APP, spreads=[spread("rack", APP)]))

    assert refusal.constraint is Constraint.SPREAD
    assert says(refusal, "rack")


def test_a_port_that_a_daemon_has_everywhere_is_named() -> None:
    refusal = the_refusal(a_pod("p", ports=[8080]), daemon_sets=[a_daemon_set("a", ports=[8080])])

    assert refusal.constraint is Constraint.HOST_PORT
    assert says(refusal, "8080")


# --- The whole answer -------------------------------------------------------------------------


def both_pools(pod: Pod) -> Plan:
    pools = [
        a_pool("light", taints=[taint("dedicated")]),
        a_pool("heavy", weight=10, requirements=[(label_keys.ARCH, "In", ["amd64"])]),
    ]
    return solve(cluster([pod], pools))


def test_every_pool_answers_once_in_order_of_preference() -> None:
    refusals = refusals_of(both_pools(a_pod("p", cpu="10")), "p")

    assert [(one.nodepool, one.constraint) for one in refusals] == [
        ("heavy", Constraint.RESOURCES),
        ("light", Constraint.TAINT),
    ]


def test_a_pool_that_other_pods_use_does_not_refuse_them() -> None:
    plan = solve(cluster([a_pod("huge", cpu="99"), a_pod("fine")]))

    assert unplaced(plan) == ["huge"]


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("p", cpu="1000"),
        a_pod("p", node_selector={"team": "red"}),
        a_pod("p", node_selector={label_keys.INSTANCE_TYPE: "nothing-like-it"}),
        a_pod(
            "p", node_terms=[node_term((label_keys.INSTANCE_TYPE, "NotIn", ["t"]), ("x", "Exists"))]
        ),
    ],
    ids=["cpu", "label", "type", "affinity"],
)
def test_a_message_is_one_line_however_large_the_catalogue(pod: Pod) -> None:
    refusal = the_refusal(pod, types=incremental(300))

    assert "\n" not in refusal.message
    assert len(refusal.message) <= 300


def test_pods_alike_are_refused_alike() -> None:
    plan = solve(cluster(pods(3, cpu="17")))

    messages = {refusals_of(plan, f"pod-{i}") for i in range(3)}
    assert len(messages) == 1


def test_the_reason_is_the_last_one_left_after_wishes_were_given_up() -> None:
    pod = a_pod(
        "p", cpu="17", preferred_node_terms=[prefer_node(1, (label_keys.ZONE, "In", ["mars-1a"]))]
    )

    refusal = the_refusal(pod)

    assert refusal.constraint is Constraint.RESOURCES
    assert "mars-1a" not in refusal.message
