"""DaemonSet overhead on existing nodes."""

import pytest

from tests.support.scheduling.builders import a_daemon_set, a_node, a_pod, a_pool, cluster, taint, tolerate
from tests.support.scheduling.plans import node_of, type_names
from tests.support.scheduling.solver import checked as solve

AGENT = a_daemon_set("agent", cpu="1", memory="1Gi")


def test_a_daemon_set_that_has_not_arrived_yet_keeps_its_room() -> None:
    node = a_node("n", cpu=4, pool="default")

    plan = solve(cluster([a_pod("p", cpu="3.5")], nodes=[node], daemon_sets=[AGENT]))

    assert node_of(plan, "p") != "n"


def test_s31_a_daemon_set_that_runs_already_needs_no_more_room() -> None:
    node = a_node("n", cpu="15.9", memory="100Gi", pool="default", pods=[AGENT.pod])

    plan = solve(cluster([a_pod("p", cpu="14.9")], nodes=[node], daemon_sets=[AGENT]))

    assert node_of(plan, "p") == "n"


@pytest.mark.parametrize(("cpu", "lands"), [("1", True), ("2", False)])
def test_s32_more_daemon_sets_than_expected_give_no_room_back(cpu: str, lands: bool) -> None:
    unexpected = a_daemon_set("other", cpu="2", memory="1Gi").pod
    node = a_node("n", cpu=4, memory="8Gi", pool="default", pods=[AGENT.pod, unexpected])

    plan = solve(cluster([a_pod("p", cpu=cpu)], nodes=[node], daemon_sets=[AGENT]))

    assert (node_of(plan, "p") == "n") is lands


def test_s33_a_daemon_set_that_cannot_run_on_the_node_takes_nothing_there() -> None:
    daemon = a_daemon_set("agent", cpu="3", node_selector={"team": "red"})
    node = a_node("n", cpu=4, pool="default")
    pool = a_pool(labels={"team": "red"})

    plan = solve(cluster([a_pod("p", cpu="2")], [pool], nodes=[node], daemon_sets=[daemon]))

    assert node_of(plan, "p") == "n"


def test_s33_a_daemon_set_still_takes_its_share_of_a_new_node() -> None:
    daemon = a_daemon_set("agent", cpu="2", node_selector={"team": "red"})
    node = a_node("n", cpu=1, pool="default")
    pool = a_pool(labels={"team": "red"})

    plan = solve(cluster([a_pod("p", cpu="1.5")], [pool], nodes=[node], daemon_sets=[daemon]))

    assert type_names(plan) == ["default"]


def test_s33_a_daemon_set_that_does_not_tolerate_the_nodes_taint_takes_nothing_there() -> None:
    soft = taint("busy", effect="PreferNoSchedule")
    hard = taint("dedicated")
    daemon = a_daemon_set("agent", cpu="3")
    busy = a_node("busy", cpu=4, pool="default", taints=(soft,))
    dedicated = a_node("dedicated", cpu=4, pool="default", taints=(hard,))
    pod = a_pod("p", cpu="2", tolerations=[tolerate()])

    plan = solve(cluster([pod], nodes=[busy, dedicated], daemon_sets=[daemon]))

    assert node_of(plan, "p") == "dedicated"


def test_the_port_of_a_daemon_set_is_taken_on_an_existing_node_too() -> None:
    daemon = a_daemon_set("agent", ports=[8080])
    node = a_node("n", pool="default", pods=[daemon.pod])

    plan = solve(cluster([a_pod("p", ports=[8080])], nodes=[node], daemon_sets=[daemon]))

    assert node_of(plan, "p") is None
