"""Pods: binding, grace period, eviction under PDBs, and mutable fields."""

import pytest

from dovetail.ports.api_resources import POD_DISRUPTION_BUDGETS, PODS, PRIORITY_CLASSES
from dovetail.ports.kube_errors import Conflict, Forbidden, InternalError, Invalid, NotFound, TooManyRequests
from tests.contract.apiserver.objects import (
    NO_FINALIZERS,
    a_pdb,
    a_pod,
    exists,
    names,
    run_pod,
    with_finalizers,
)
from tests.contract.apiserver.subject import JSON, Subject

ON_N1 = {"target": {"kind": "Node", "name": "n1"}}


def web_pods(server: Subject, *wanted: str) -> None:
    for name in wanted:
        run_pod(server, a_pod(name, labels={"app": "web"}))


def a_new_budget(server: Subject, name: str = "pdb", **spec: object) -> None:
    server.create(POD_DISRUPTION_BUDGETS, a_pdb(name, **spec))
    server.wait_for_controllers()


def evicted(server: Subject, *candidates: str) -> list[str]:
    """Try to evict some pods and return those that went."""
    went = []
    for name in candidates:
        try:
            server.evict(name)
            went.append(name)
        except TooManyRequests:
            continue
    return went


def test_a_pod_has_the_priority_of_its_class(server: Subject) -> None:
    name = server.unique("urgent")
    server.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 1000})

    urgent = server.create(PODS, a_pod("urgent", priorityClassName=name))
    critical = server.create(PODS, a_pod("critical", priorityClassName="system-node-critical"))
    usual = server.create(PODS, a_pod("usual"))

    priorities = [pod["spec"].get("priority", 0) for pod in (urgent, critical, usual)]
    assert priorities == [1000, 2_000_001_000, 0]


def test_a_pod_has_the_preemption_policy_of_its_class_and_no_other(server: Subject) -> None:
    name = server.unique("polite")
    polite = {"metadata": {"name": name}, "value": 10, "preemptionPolicy": "Never"}
    server.create(PRIORITY_CLASSES, polite)

    pod = server.create(PODS, a_pod("p", priorityClassName=name))

    assert pod["spec"]["preemptionPolicy"] == "Never"
    for spec in (
        {"preemptionPolicy": "Never"},
        {"priorityClassName": name, "preemptionPolicy": "PreemptLowerPriority"},
    ):
        with pytest.raises(Forbidden, match="must not be provided in pod spec"):
            server.create(PODS, a_pod("q", **spec))


def test_a_pod_of_a_missing_priority_class_is_rejected(server: Subject) -> None:
    with pytest.raises(Forbidden, match="no PriorityClass with name missing was found"):
        server.create(PODS, a_pod("p", priorityClassName="missing"))


def test_a_binding_sets_the_node_and_the_scheduled_condition(server: Subject) -> None:
    server.create(PODS, a_pod("p"))

    server.bind("p", {**ON_N1, "metadata": {"annotations": {"a": "b"}}})

    pod = server.get(PODS, "p")
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["metadata"]["annotations"] == {"a": "b"}
    scheduled = [
        condition for condition in pod["status"]["conditions"] if condition["type"] == "PodScheduled"
    ]
    assert [condition["status"] for condition in scheduled] == ["True"]


def test_a_pod_is_bound_once(server: Subject) -> None:
    server.create(PODS, a_pod("p"))
    server.bind("p", ON_N1)

    with pytest.raises(Conflict, match='already assigned to node "n1"'):
        server.bind("p", {"target": {"kind": "Node", "name": "n2"}})


def test_a_gated_pod_a_namesake_or_a_missing_pod_cannot_be_bound(server: Subject) -> None:
    server.create(PODS, a_pod("gated", schedulingGates=[{"name": "x.io/gate"}]))
    server.create(PODS, a_pod("p"))

    with pytest.raises(Conflict, match="schedulingGates"):
        server.bind("gated", ON_N1)
    with pytest.raises(Conflict, match="UID"):
        server.bind("p", {**ON_N1, "metadata": {"uid": "another"}})
    with pytest.raises(NotFound):
        server.bind("q", ON_N1)


def test_a_bound_pod_waits_for_its_kubelet_and_an_unbound_one_is_removed(server: Subject) -> None:
    run_pod(server, a_pod("bound", terminationGracePeriodSeconds=60))
    server.create(PODS, a_pod("unbound"))

    server.delete(PODS, "bound")
    server.delete(PODS, "unbound")

    waiting = server.get(PODS, "bound")["metadata"]
    assert waiting["deletionTimestamp"] > waiting["creationTimestamp"]
    assert waiting["deletionGracePeriodSeconds"] == 60
    assert names(server.list(PODS)["items"]) == ["bound"]
    server.delete(PODS, "bound", grace_period_seconds=0)
    assert names(server.list(PODS)["items"]) == []


def test_a_finished_pod_has_no_grace_period(server: Subject) -> None:
    run_pod(server, a_pod("done"))
    server.patch(PODS, "done", {"status": {"phase": "Succeeded"}}, subresource="status")

    server.delete(PODS, "done")

    assert not exists(server, PODS, "done")


def test_a_second_deletion_can_shorten_the_grace_period_but_not_extend_it(server: Subject) -> None:
    run_pod(server, a_pod("p"))

    def grace_after(seconds: int | None) -> int:
        server.delete(PODS, "p", grace_period_seconds=seconds)
        return int(server.get(PODS, "p")["metadata"]["deletionGracePeriodSeconds"])

    assert [grace_after(seconds) for seconds in (None, 300, 10)] == [30, 30, 10]


def test_a_pod_that_was_stopped_still_waits_for_its_finalizers(server: Subject) -> None:
    run_pod(server, with_finalizers(a_pod("p")))
    server.delete(PODS, "p", grace_period_seconds=0)

    assert exists(server, PODS, "p")
    server.patch(PODS, "p", NO_FINALIZERS)
    assert not exists(server, PODS, "p")


def test_a_pod_without_finalizers_still_waits_for_its_grace_period(server: Subject) -> None:
    run_pod(server, with_finalizers(a_pod("p")))
    server.delete(PODS, "p")

    server.patch(PODS, "p", NO_FINALIZERS)

    assert exists(server, PODS, "p")
    server.delete(PODS, "p", grace_period_seconds=0)


def test_of_a_pod_spec_only_images_and_added_tolerations_may_change(server: Subject) -> None:
    server.create(PODS, a_pod("a"))
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "app:2"}]
    more = {"key": "x", "operator": "Exists"}
    tolerations = server.get(PODS, "a")["spec"].get("tolerations", [])
    toleration = [{"op": "add", "path": "/spec/tolerations", "value": [*tolerations, more]}]
    intolerance = [{"op": "remove", "path": "/spec/tolerations"}]
    node = [{"op": "add", "path": "/spec/nodeName", "value": "n1"}]
    selector = [{"op": "add", "path": "/spec/nodeSelector", "value": {"a": "b"}}]

    for allowed in (image, toleration):
        server.patch(PODS, "a", allowed, JSON)
    for forbidden in (node, intolerance, selector):
        with pytest.raises(Invalid):
            server.patch(PODS, "a", forbidden, JSON)


def test_without_a_pdb_an_evicted_pod_is_deleted_with_its_grace_period(server: Subject) -> None:
    run_pod(server, a_pod("p"))

    server.evict("p")

    pod = server.get(PODS, "p")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    target = next(
        condition for condition in pod["status"]["conditions"] if condition["type"] == "DisruptionTarget"
    )
    assert target["reason"] == "EvictionByEvictionAPI"


def test_an_exhausted_pdb_rejects_an_eviction_with_its_cause(server: Subject) -> None:
    web_pods(server, "p1", "p2", "p3")
    a_new_budget(server, minAvailable=2)
    server.evict("p1")
    server.wait_for_controllers()

    with pytest.raises(TooManyRequests) as refused:
        server.evict("p2")

    [cause] = refused.value.details["causes"]
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"] == ("The disruption budget pdb needs 2 healthy pods and has 2 currently")
    assert "deletionTimestamp" not in server.get(PODS, "p2")["metadata"]


def test_a_pod_that_is_ready_again_restores_the_allowed_disruptions(server: Subject) -> None:
    web_pods(server, "p1", "p2", "p3")
    a_new_budget(server, minAvailable=2)

    assert evicted(server, "p1", "p2") == ["p1"]
    web_pods(server, "p4")
    server.wait_for_controllers()
    assert evicted(server, "p2", "p3") == ["p2"]


def test_pods_that_do_not_run_can_be_evicted_whatever_the_pdb(server: Subject) -> None:
    web_pods(server, "p1")
    server.create(PODS, a_pod("pending", labels={"app": "web"}))
    a_new_budget(server, minAvailable=1)

    assert evicted(server, "pending", "p1") == ["pending"]


@pytest.mark.parametrize(
    ("policy", "least", "goes"),
    [("IfHealthyBudget", 2, True), ("IfHealthyBudget", 3, False), ("AlwaysAllow", 3, True)],
)
def test_a_running_unready_pod_follows_the_unhealthy_eviction_policy(
    server: Subject, policy: str, least: int, goes: bool
) -> None:
    web_pods(server, "p1", "p2", "p3")
    broken = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    server.patch(PODS, "p3", broken, subresource="status")
    a_new_budget(server, minAvailable=least, unhealthyPodEvictionPolicy=policy)

    assert evicted(server, "p3") == (["p3"] if goes else [])


def test_two_pdbs_for_one_pod_are_an_error(server: Subject) -> None:
    web_pods(server, "p1", "p2")
    a_new_budget(server, "a", minAvailable=1)
    a_new_budget(server, "b", minAvailable=1)

    with pytest.raises(InternalError, match="more than one PodDisruptionBudget"):
        server.evict("p1")


def test_a_terminating_pod_is_not_evicted_again(server: Subject) -> None:
    web_pods(server, "p1")
    server.evict("p1")
    before = server.get(PODS, "p1")

    server.evict("p1")

    assert server.get(PODS, "p1") == before


def test_an_eviction_checks_its_preconditions(server: Subject) -> None:
    meta = run_pod(server, a_pod("p"))["metadata"]

    with pytest.raises(Conflict):
        server.evict("p", uid="another")
    server.evict("p", uid=meta["uid"], resource_version=meta["resourceVersion"])

    assert "deletionTimestamp" in server.get(PODS, "p")["metadata"]


def test_a_dry_run_evicts_no_pod(server: Subject) -> None:
    before = run_pod(server, a_pod("p"))

    server.evict("p", dry_run=True)

    assert server.get(PODS, "p") == before
