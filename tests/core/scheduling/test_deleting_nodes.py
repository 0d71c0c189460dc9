"""Pods on deleting nodes get other nodes."""

from typing import Any

import pytest

from dovetail.core.scheduling.pods.pending import reschedulable_group_filter, reschedulable_pod_filter
from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod, PodPhase
from dovetail.model.kube.pod_groups import group_pods
from dovetail.model.kube.workloads import PodDisruptionBudget
from dovetail.model.settings import Packing, SchedulingSettings
from tests.support.scheduling.builders import a_node, a_pod, cluster, owned_by, pods, selector
from tests.support.scheduling.plans import node_of, placed, type_names, unplaced
from tests.support.scheduling.solver import checked as solve

BOTH = pytest.mark.parametrize("packing", list(Packing))


def solve_with_deleting_node(*some: Pod, **fields: Any) -> Any:
    """Solve for a cluster whose only node, with these pods, is deleting."""
    node = a_node("leaving", pool="default", cpu=64, memory="64Gi", deleting=True, pods=some)
    return solve(cluster([], nodes=[node], **fields))


@BOTH
def test_p12_a_deleting_node_takes_no_pods(packing: Packing) -> None:
    node = a_node("leaving", pool="default", cpu=64, deleting=True, pods=pods(3, "running"))

    plan = solve(cluster(pods(3, "new"), nodes=[node]), SchedulingSettings(packing=packing))

    assert len(placed(plan)) == 6
    assert plan.existing == ()


def test_s56_pods_of_a_deleting_node_get_a_node_of_the_right_size() -> None:
    plan = solve_with_deleting_node(a_pod("p", cpu="3"))

    assert type_names(plan) == ["default"]
    assert placed(plan) == ["p"]


def test_s56_room_on_other_nodes_is_used_first() -> None:
    nodes = [
        a_node("leaving", pool="default", deleting=True, pods=[a_pod("p")]),
        a_node("staying", pool="default"),
    ]

    assert node_of(solve(cluster([], nodes=nodes)), "p") == "staying"


def test_s57_a_terminating_pod_gets_no_node() -> None:
    for owner in (None, owned_by("ReplicaSet", "web")):
        assert placed(solve_with_deleting_node(a_pod("p", deleting=True, owner=owner))) == []


def test_s57_a_terminating_pod_of_a_stateful_set_gets_one() -> None:
    plan = solve_with_deleting_node(a_pod("db-0", deleting=True, owner=owned_by("StatefulSet", "db")))

    assert placed(plan) == ["db-0"]


@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_s57_daemon_set_and_static_pods_go_with_their_node(kind: str) -> None:
    assert placed(solve_with_deleting_node(a_pod("p", owner=owned_by(kind, "x")))) == []


@pytest.mark.parametrize("phase", [PodPhase.SUCCEEDED, PodPhase.FAILED])
def test_s57_terminated_pods_need_no_node(phase: PodPhase) -> None:
    assert placed(solve_with_deleting_node(a_pod("p", phase=phase))) == []


def budget(name: str = "guard", **fields: Any) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        **{"namespace": "default", "name": name, "selector": selector({"app": "a"}), **fields}
    )


GUARDED = a_pod("p", labels={"app": "a"})


@pytest.mark.parametrize(
    "budgets",
    [
        [budget(max_unavailable="0")],
        [budget(max_unavailable="0%")],
        [budget(min_available="100%")],
        [budget("one", max_unavailable="1"), budget("two", max_unavailable="1")],
    ],
    ids=["none", "no-percent", "all", "two-budgets"],
)
def test_s58_a_pod_that_may_not_be_evicted_stays_where_it_is(budgets: Any) -> None:
    assert placed(solve_with_deleting_node(GUARDED, pod_disruption_budgets=budgets)) == []


@pytest.mark.parametrize(
    "budgets",
    [
        [budget(max_unavailable="1")],
        [budget(max_unavailable="0", selector=selector({"app": "other"}))],
        [budget(max_unavailable="0", namespace="elsewhere")],
        [budget(max_unavailable="0", selector=None)],
    ],
    ids=["one-may-go", "other-app", "other-namespace", "no-selector"],
)
def test_s58_a_budget_that_allows_it_or_guards_others_does_not_hold_the_pod(budgets: Any) -> None:
    assert placed(solve_with_deleting_node(GUARDED, pod_disruption_budgets=budgets)) == ["p"]


def test_s58_a_budget_that_allows_unhealthy_evictions_does_not_block_them() -> None:
    sick = a_pod("p", labels={"app": "a"}, ready=False)
    lenient = budget(max_unavailable="0", always_allow_unhealthy=True)

    assert placed(solve_with_deleting_node(sick, pod_disruption_budgets=[lenient])) == ["p"]
    assert placed(solve_with_deleting_node(GUARDED, pod_disruption_budgets=[lenient])) == []


def test_a_pod_that_must_not_be_disrupted_stays_where_it_is() -> None:
    pod = a_pod("p", annotations={label_keys.DO_NOT_DISRUPT: "true"})

    assert placed(solve_with_deleting_node(pod)) == []


def test_pods_that_do_not_move_still_count_as_unplaced_nowhere() -> None:
    plan = solve_with_deleting_node(a_pod("p", owner=owned_by("DaemonSet", "x")))

    assert unplaced(plan) == []


@pytest.mark.parametrize(
    "budgets",
    [
        [],
        [budget(max_unavailable="1")],
        [budget(max_unavailable="0")],
        [budget("one", max_unavailable="1"), budget("two", max_unavailable="1")],
    ],
    ids=["no-budget", "one-may-go", "none", "two-budgets"],
)
def test_s58_a_group_of_pods_is_filtered_as_its_pods_are(budgets: Any) -> None:
    snapshot = cluster([], pod_disruption_budgets=budgets)
    running = [a_pod(f"p-{number}", labels={"app": "a"}) for number in range(3)]
    (group,) = group_pods(running)

    filtered = reschedulable_group_filter(snapshot)(group)

    assert list(filtered) == [pod for pod in running if reschedulable_pod_filter(snapshot)(pod)]
