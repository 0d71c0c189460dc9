"""Scale, binding and eviction."""

from typing import Any

import pytest

from dovetail.ports.kubeerrors import (
    BadRequest,
    Conflict,
    InternalError,
    MethodNotAllowed,
    NotFound,
    TooManyRequests,
)
from dovetail.ports.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
)
from dovetail.sim.apiserver.deleting import DeleteOptions
from dovetail.sim.apiserver.frozen import Object, look, thaw
from dovetail.sim.apiserver.options import PatchType
from tests.support.cluster import (
    Cluster,
    a_config_map,
    a_pod,
    a_replica_set,
    owned_by,
    run_pod,
)

ON_N1 = {"target": {"kind": "Node", "name": "n1"}}


def a_budget(name: str = "pdb", **spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": selector, **spec},
    }


def three_web_pods(cluster: Cluster, owner: Object | None = None) -> None:
    for name in ("p1", "p2", "p3"):
        pod = a_pod(name, labels={"app": "web"})
        run_pod(cluster, pod if owner is None else owned_by(pod, owner))


def evicted(cluster: Cluster, *names: str) -> list[str]:
    """Try to evict some pods and return those that went."""
    went = []
    for name in names:
        try:
            cluster.evict(name, "default")
            went.append(name)
        except TooManyRequests:
            continue
    return went


def test_scale_shows_replicas_and_the_selector_as_text() -> None:
    cluster = Cluster()
    cluster.create(DEPLOYMENTS, a_replica_set("d", replicas=3))
    status = {"status": {"replicas": 2}}
    cluster.patch(DEPLOYMENTS, "d", status, PatchType.MERGE, "default", subresource="status")

    scale = cluster.get(DEPLOYMENTS, "d", "default", subresource="scale")

    assert (scale["apiVersion"], scale["kind"]) == ("autoscaling/v1", "Scale")
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 2, "selector": "app=web"}


def test_a_changed_scale_changes_the_workload() -> None:
    cluster = Cluster()
    cluster.create(DEPLOYMENTS, a_replica_set("d", replicas=3))
    scale = thaw(cluster.get(DEPLOYMENTS, "d", "default", subresource="scale"))

    scale["spec"]["replicas"] = 10
    answer = cluster.update(DEPLOYMENTS, scale, subresource="scale")

    deployment = cluster.get(DEPLOYMENTS, "d", "default")
    assert answer["spec"] == {"replicas": 10}
    assert deployment["spec"]["replicas"] == 10
    assert deployment["metadata"]["generation"] == 2
    with pytest.raises(Conflict):
        cluster.update(DEPLOYMENTS, scale, subresource="scale")


@pytest.mark.parametrize("replicas", [-1, "3", None, True])
def test_a_scale_that_is_no_number_is_refused(replicas: Any) -> None:
    cluster = Cluster()
    cluster.create(DEPLOYMENTS, a_replica_set("d"))
    patch = {"spec": {"replicas": replicas}}

    with pytest.raises(BadRequest):
        cluster.patch(DEPLOYMENTS, "d", patch, PatchType.MERGE, "default", subresource="scale")


def test_kinds_without_a_subresource_say_so() -> None:
    cluster = Cluster()
    cluster.create(CONFIG_MAPS, a_config_map("a"))

    for subresource in ("scale", "status", "eviction"):
        with pytest.raises(MethodNotAllowed):
            cluster.get(CONFIG_MAPS, "a", "default", subresource=subresource)


def test_binding_assigns_the_pod_and_says_that_it_is_scheduled() -> None:
    cluster = Cluster()
    cluster.create(PODS, a_pod("p"))

    pod = cluster.bind("p", "default", {**ON_N1, "metadata": {"annotations": {"a": "b"}}})

    assert pod["spec"]["nodeName"] == "n1"
    assert pod["metadata"]["annotations"] == {"a": "b"}
    (condition,) = pod["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


def test_a_pod_is_bound_once() -> None:
    cluster = Cluster()
    cluster.create(PODS, a_pod("p"))
    cluster.bind("p", "default", ON_N1)

    with pytest.raises(Conflict, match='already assigned to node "n1"'):
        cluster.bind("p", "default", {"target": {"name": "n2"}})


def test_a_gated_pod_a_namesake_or_a_binding_without_node_cannot_be_bound() -> None:
    cluster = Cluster()
    cluster.create(PODS, a_pod("gated", schedulingGates=[{"name": "x"}]))
    cluster.create(PODS, a_pod("p"))

    with pytest.raises(Conflict, match="schedulingGates"):
        cluster.bind("gated", "default", ON_N1)
    with pytest.raises(Conflict, match="UID"):
        cluster.bind("p", "default", {**ON_N1, "metadata": {"uid": "another"}})
    with pytest.raises(BadRequest):
        cluster.bind("p", "default", {})
    with pytest.raises(NotFound):
        cluster.bind("q", "default", ON_N1)


def test_without_a_budget_an_evicted_pod_is_deleted_with_its_grace() -> None:
    cluster = Cluster()
    run_pod(cluster, a_pod("p"))

    cluster.evict("p", "default")

    pod = cluster.get(PODS, "p", "default")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    target = next(one for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget")
    assert target["reason"] == "EvictionByEvictionAPI"


def test_a_budget_that_is_used_up_refuses_with_its_reason() -> None:
    cluster = Cluster()
    three_web_pods(cluster)
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget(minAvailable=2))
    cluster.evict("p1", "default")

    with pytest.raises(TooManyRequests) as refused:
        cluster.evict("p2", "default")

    status = refused.value.status()
    assert (status["code"], status["reason"]) == (429, "TooManyRequests")
    assert status["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget pdb needs 2 healthy pods and has 2 currently",
        }
    ]
    assert "deletionTimestamp" not in cluster.get(PODS, "p2", "default")["metadata"]


def test_an_eviction_is_written_into_the_budgets_status() -> None:
    cluster = Cluster()
    three_web_pods(cluster)
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget(minAvailable=1))

    cluster.evict("p1", "default")

    status = cluster.get(POD_DISRUPTION_BUDGETS, "pdb", "default")["status"]
    assert status["disruptionsAllowed"] == 1
    assert (status["currentHealthy"], status["desiredHealthy"]) == (2, 1)


def test_a_pod_that_is_ready_again_gives_the_budget_back() -> None:
    cluster = Cluster()
    three_web_pods(cluster)
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget(minAvailable=2))

    assert evicted(cluster, "p1", "p2") == ["p1"]
    run_pod(cluster, a_pod("p4", labels={"app": "web"}))
    assert evicted(cluster, "p2", "p3") == ["p2"]


@pytest.mark.parametrize(
    ("budget", "allowed"),
    [
        ({"maxUnavailable": 1}, 1),
        ({"maxUnavailable": "50%"}, 2),
        ({"maxUnavailable": 0}, 0),
        ({"minAvailable": "50%"}, 1),
        ({"minAvailable": "100%"}, 0),
        ({"minAvailable": 0}, 3),
    ],
)
def test_a_budget_counts_against_what_the_pods_controller_wants(
    budget: dict[str, Any], allowed: int
) -> None:
    cluster = Cluster()
    owner = cluster.create(REPLICA_SETS, a_replica_set("rs", replicas=3))
    three_web_pods(cluster, owner)
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget(**budget))

    assert len(evicted(cluster, "p1", "p2", "p3")) == allowed


def test_pods_missing_from_their_controllers_count_as_unavailable() -> None:
    cluster = Cluster()
    deployment = cluster.create(DEPLOYMENTS, a_replica_set("d", replicas=5))
    owner = cluster.create(REPLICA_SETS, owned_by(a_replica_set("rs", replicas=3), deployment))
    three_web_pods(cluster, owner)
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget(maxUnavailable=2))

    assert evicted(cluster, "p1") == []


def test_a_budget_by_share_allows_nothing_over_pods_whose_controller_has_no_replicas() -> None:
    cluster = Cluster()
    job = cluster.create(JOBS, {"metadata": {"name": "j", "namespace": "default"}, "spec": {}})
    three_web_pods(cluster, job)
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget(maxUnavailable=3))

    assert evicted(cluster, "p1") == []


def test_pods_that_do_not_run_can_be_evicted_whatever_the_budget() -> None:
    cluster = Cluster()
    three_web_pods(cluster)
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget(minAvailable=3))
    cluster.create(PODS, a_pod("pending", labels={"app": "web"}))

    assert evicted(cluster, "pending", "p1") == ["pending"]


@pytest.mark.parametrize(
    ("policy", "least", "goes"),
    [
        ("IfHealthyBudget", 2, True),
        ("IfHealthyBudget", 3, False),
        ("AlwaysAllow", 3, True),
    ],
)
def test_a_running_pod_that_is_not_ready_goes_by_the_budgets_policy(
    policy: str, least: int, goes: bool
) -> None:
    cluster = Cluster()
    three_web_pods(cluster)
    broken = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    cluster.patch(PODS, "p3", broken, PatchType.MERGE, "default", subresource="status")
    budget = a_budget(minAvailable=least, unhealthyPodEvictionPolicy=policy)
    cluster.create(POD_DISRUPTION_BUDGETS, budget)

    assert evicted(cluster, "p3") == (["p3"] if goes else [])


def test_two_budgets_over_one_pod_are_an_error() -> None:
    cluster = Cluster()
    three_web_pods(cluster)
    for name in ("a", "b"):
        cluster.create(POD_DISRUPTION_BUDGETS, a_budget(name, minAvailable=1))

    with pytest.raises(InternalError, match="more than one PodDisruptionBudget"):
        cluster.evict("p1", "default")


def test_a_pod_on_its_way_out_is_not_evicted_a_second_time() -> None:
    cluster = Cluster()
    three_web_pods(cluster)
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget(minAvailable=2))
    cluster.evict("p1", "default")
    before = cluster.resource_version

    cluster.evict("p1", "default")

    assert cluster.resource_version == before


def test_an_eviction_keeps_to_its_preconditions() -> None:
    cluster = Cluster()
    meta = run_pod(cluster, a_pod("p"))["metadata"]

    with pytest.raises(Conflict):
        cluster.evict("p", "default", options=DeleteOptions(uid="another"))
    meant = DeleteOptions(uid=meta["uid"], resource_version=meta["resourceVersion"])
    cluster.evict("p", "default", options=meant)

    assert "deletionTimestamp" in cluster.get(PODS, "p", "default")["metadata"]


def test_a_dry_run_asks_the_budget_and_evicts_nobody() -> None:
    cluster = Cluster()
    three_web_pods(cluster)
    before = cluster.resource_version

    cluster.evict("p1", "default", options=DeleteOptions(dry_run=True))

    assert cluster.resource_version == before
    assert look(cluster.get(PODS, "p1", "default"), "metadata", "deletionTimestamp") is None
