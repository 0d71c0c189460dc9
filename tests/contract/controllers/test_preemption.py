"""Preemption: pods of higher priority take the place of less important ones."""

from collections.abc import Callable
from typing import Any

import pytest

from dovetail.ports.api_resources import POD_DISRUPTION_BUDGETS, PODS, PRIORITY_CLASSES
from tests.contract.apiserver.objects import a_pdb, a_pod
from tests.contract.apiserver.subject import Object
from tests.contract.controllers.subject import EVERYWHERE, ControlPlane, create_node, run_pod

PRIORITIES = {"low": -10, "middle": 10, "high": 1000}


@pytest.fixture(autouse=True)
def priority_classes(plane: ControlPlane) -> None:
    for name, value in PRIORITIES.items():
        plane.create(PRIORITY_CLASSES, {"metadata": {"name": plane.unique(name)}, "value": value})
    polite = {"metadata": {"name": plane.unique("polite")}, "value": 1000, "preemptionPolicy": "Never"}
    plane.create(PRIORITY_CLASSES, polite)


def prioritised(plane: ControlPlane, name: str, priority: str, *, cpu: str = "4", **spec: Any) -> Object:
    """Return a pod for the nodes of this test."""
    resources = {"requests": {"cpu": cpu}}
    return a_pod(
        name,
        labels={"app": name},
        containers=[{"name": "main", "image": "app:1", "resources": resources}],
        schedulerName="default-scheduler",
        nodeSelector={"contract": plane.namespace},
        tolerations=EVERYWHERE,
        priorityClassName=plane.unique(priority),
        **spec,
    )


def run_on(plane: ControlPlane, node: str, name: str, priority: str, **spec: Any) -> None:
    """Run a pod on a node, past the scheduler."""
    run_pod(plane, prioritised(plane, name, priority, nodeName=node, **spec), ip="10.9.0.1")


def terminating(plane: ControlPlane) -> list[str]:
    pods = plane.list(PODS)["items"]
    return sorted(pod["metadata"]["name"] for pod in pods if "deletionTimestamp" in pod["metadata"])


def nominated_node(plane: ControlPlane, name: str) -> str:
    return str(plane.get(PODS, name)["status"].get("nominatedNodeName", ""))


def scheduled_condition(plane: ControlPlane, name: str) -> Object:
    conditions = plane.get(PODS, name)["status"].get("conditions") or ()
    return next((item for item in conditions if item["type"] == "PodScheduled"), {})


def has_preempted(plane: ControlPlane, name: str) -> Callable[[], bool]:
    """Return whether a pod has its node and a victim; victims are deleted after the nomination."""
    return lambda: bool(nominated_node(plane, name) and terminating(plane))


def is_unschedulable(plane: ControlPlane, name: str) -> Callable[[], bool]:
    return lambda: scheduled_condition(plane, name).get("reason") == "Unschedulable"


def test_a_pod_takes_the_node_of_a_less_important_one(plane: ControlPlane) -> None:
    node = create_node(plane, "one")
    run_on(plane, node, "cheap", "low")

    plane.create(PODS, prioritised(plane, "urgent", "high"))
    plane.wait_until("the pod preempts", has_preempted(plane, "urgent"))
    waits_for, victims = nominated_node(plane, "urgent"), terminating(plane)
    plane.delete(PODS, "cheap", grace_period_seconds=0)
    plane.wait_until("it is bound", lambda: plane.get(PODS, "urgent")["spec"].get("nodeName") == node)

    assert (waits_for, victims) == (node, ["cheap"])


def test_a_victim_says_why_it_ends(plane: ControlPlane) -> None:
    node = create_node(plane, "one")
    run_on(plane, node, "cheap", "low")

    urgent = plane.create(PODS, prioritised(plane, "urgent", "high"))
    plane.wait_until("the victim terminates", lambda: terminating(plane) == ["cheap"])

    conditions = plane.get(PODS, "cheap")["status"]["conditions"]
    target = next(item for item in conditions if item["type"] == "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
    # The simulated scheduler's message differs in its words, and names the same pod.
    assert "preempt" in target["message"].lower()
    assert urgent["metadata"]["uid"] in target["message"] or "default-scheduler" in target["message"]


def test_only_as_many_pods_as_needed_are_preempted_the_least_important_first(plane: ControlPlane) -> None:
    node = create_node(plane, "one")
    run_on(plane, node, "low", "low", cpu="2")
    run_on(plane, node, "middle", "middle", cpu="2")

    plane.create(PODS, prioritised(plane, "urgent", "high", cpu="2"))
    plane.wait_until("the pod preempts", has_preempted(plane, "urgent"))

    assert terminating(plane) == ["low"]


def test_the_node_with_the_least_important_victims_is_chosen(plane: ControlPlane) -> None:
    first, second = create_node(plane, "first"), create_node(plane, "second")
    run_on(plane, first, "middle", "middle")
    run_on(plane, second, "low", "low")

    plane.create(PODS, prioritised(plane, "urgent", "high"))
    plane.wait_until("the pod preempts", has_preempted(plane, "urgent"))

    assert nominated_node(plane, "urgent") == second
    assert terminating(plane) == ["low"]


def test_fewer_victims_are_better_than_many_of_the_same_priority(plane: ControlPlane) -> None:
    first, second = create_node(plane, "first"), create_node(plane, "second")
    run_on(plane, first, "half-1", "low", cpu="2")
    run_on(plane, first, "half-2", "low", cpu="2")
    run_on(plane, second, "whole", "low")

    plane.create(PODS, prioritised(plane, "urgent", "high"))
    plane.wait_until("the pod preempts", has_preempted(plane, "urgent"))

    assert terminating(plane) == ["whole"]


def test_a_budget_that_allows_no_disruption_is_respected_if_another_node_fits(plane: ControlPlane) -> None:
    first, second = create_node(plane, "first"), create_node(plane, "second")
    run_on(plane, first, "guarded", "low")
    run_on(plane, second, "other", "middle")
    guard(plane)

    plane.create(PODS, prioritised(plane, "urgent", "high"))
    plane.wait_until("the pod preempts", has_preempted(plane, "urgent"))

    assert terminating(plane) == ["other"]


def test_a_budget_does_not_prevent_preemption_if_no_other_node_fits(plane: ControlPlane) -> None:
    run_on(plane, create_node(plane, "one"), "guarded", "low")
    guard(plane)

    plane.create(PODS, prioritised(plane, "urgent", "high"))
    plane.wait_until("the pod preempts", has_preempted(plane, "urgent"))

    assert terminating(plane) == ["guarded"]


def guard(plane: ControlPlane) -> None:
    """Protect the pod ``guarded`` with a budget, and wait until its status counts the pod."""
    selector = {"matchLabels": {"app": "guarded"}}
    plane.create(POD_DISRUPTION_BUDGETS, a_pdb("all", minAvailable=1, selector=selector))

    def is_counted() -> bool:
        status = plane.get(POD_DISRUPTION_BUDGETS, "all").get("status") or {}
        return bool(status.get("currentHealthy") == 1 and status["disruptionsAllowed"] == 0)

    plane.wait_until("the budget is counted", is_counted)


def test_pods_of_the_same_priority_and_pods_that_never_preempt_wait(plane: ControlPlane) -> None:
    run_on(plane, create_node(plane, "one"), "first", "middle")

    plane.create(PODS, prioritised(plane, "equal", "middle"))
    plane.create(PODS, prioritised(plane, "polite", "polite"))
    for name in ("equal", "polite"):
        plane.wait_until(f"{name} is unschedulable", is_unschedulable(plane, name))

    assert terminating(plane) == []
    assert nominated_node(plane, "equal") == nominated_node(plane, "polite") == ""


def test_no_pod_is_preempted_where_the_new_one_would_still_not_fit(plane: ControlPlane) -> None:
    run_on(plane, create_node(plane, "one"), "cheap", "low")

    plane.create(PODS, prioritised(plane, "huge", "high", cpu="5"))
    plane.wait_until("it is unschedulable", is_unschedulable(plane, "huge"))

    assert terminating(plane) == []
    assert nominated_node(plane, "huge") == ""
