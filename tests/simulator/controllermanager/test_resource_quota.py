"""Resource quota controller: usage follows pods that end, and workloads respect it."""

from typing import Any

from dovetail.ports.api_resources import CONFIG_MAPS, DEPLOYMENTS, EVENTS, PODS, RESOURCE_QUOTAS, SERVICES
from dovetail.simulator.apiserver.options import DeleteOptions
from tests.support.simulator.api_server import a_pod
from tests.support.simulator.controller_manager import WorkloadCluster, a_workload, set_pod


def limited(**hard: str) -> WorkloadCluster:
    cluster = WorkloadCluster()
    quota = {"metadata": {"name": "team", "namespace": "default"}, "spec": {"hard": hard}}
    cluster.create(RESOURCE_QUOTAS, quota)
    cluster.wait(1)
    return cluster


def used(cluster: WorkloadCluster) -> dict[str, Any]:
    return dict(cluster.get(RESOURCE_QUOTAS, "team", "default")["status"]["used"])


def test_a_new_quota_counts_the_pods_that_exist() -> None:
    cluster = WorkloadCluster()
    cluster.create(PODS, a_pod("a"))
    quota = {"metadata": {"name": "team", "namespace": "default"}, "spec": {"hard": {"pods": "3"}}}

    cluster.create(RESOURCE_QUOTAS, quota)
    cluster.wait(1)

    assert used(cluster) == {"pods": "1"}


def test_deleted_and_succeeded_pods_return_what_they_took() -> None:
    cluster = limited(pods="2")
    cluster.create(PODS, a_pod("deleted"))
    cluster.create(PODS, a_pod("succeeded"))
    before = used(cluster)

    cluster.delete(PODS, "deleted", "default", options=DeleteOptions(grace_period_seconds=0))
    set_pod(cluster, ("default", "succeeded"), phase="Succeeded")
    cluster.wait(1)

    assert before == {"pods": "2"}
    assert used(cluster) == {"pods": "0"}


def test_objects_that_existed_before_the_quota_are_counted_until_they_are_deleted() -> None:
    cluster = WorkloadCluster()
    for name in ("a", "b"):
        cluster.create(SERVICES, {"metadata": {"name": name, "namespace": "default"}})
        cluster.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": "default"}})
    hard = {"services": "1", "count/configmaps": "5", "count/widgets.example.com": "1"}
    quota = {"metadata": {"name": "team", "namespace": "default"}, "spec": {"hard": hard}}

    cluster.create(RESOURCE_QUOTAS, quota)
    cluster.wait(1)
    before = used(cluster)
    cluster.delete(SERVICES, "a", "default")
    cluster.wait(1)

    # Objects of unknown kinds are not counted.
    assert before == {"services": "2", "count/configmaps": "2"}
    assert used(cluster) == {"services": "1", "count/configmaps": "2"}


def test_a_service_that_becomes_a_load_balancer_is_counted_as_one() -> None:
    cluster = limited(**{"services.loadbalancers": "1", "services.nodeports": "5"})
    cluster.create(SERVICES, {"metadata": {"name": "a", "namespace": "default"}})

    service = cluster.get(SERVICES, "a", "default")
    spec = {**service["spec"], "type": "LoadBalancer", "ports": [{"port": 80}, {"port": 443}]}
    cluster.update(SERVICES, {**service, "spec": spec})
    cluster.wait(1)

    assert used(cluster) == {"services.loadbalancers": "1", "services.nodeports": "2"}


def test_a_deployment_gets_the_pods_that_fit_and_more_when_the_quota_grows() -> None:
    cluster = limited(pods="2")
    cluster.create(DEPLOYMENTS, a_workload(replicas=5))
    cluster.wait(5)
    before = len(cluster.list(PODS).items)

    quota = cluster.get(RESOURCE_QUOTAS, "team", "default")
    cluster.update(RESOURCE_QUOTAS, {**quota, "spec": {"hard": {"pods": "4"}}})
    cluster.wait(60)

    assert before == 2
    assert len(cluster.list(PODS).items) == 4


def test_names_that_are_not_enforced_have_no_usage() -> None:
    cluster = limited(**{"count/widgets.example.com": "0", "pods": "9"})

    cluster.create(DEPLOYMENTS, a_workload(replicas=1))
    cluster.wait(5)

    assert used(cluster) == {"pods": "1"}


def test_a_pod_that_the_quota_refuses_is_an_event_of_its_replicaset() -> None:
    cluster = limited(pods="1")

    cluster.create(DEPLOYMENTS, a_workload(replicas=2))
    cluster.wait(2)

    event = next(event for event in cluster.list(EVENTS).items if event["reason"] == "FailedCreate")
    assert event["type"] == "Warning"
    assert event["involvedObject"]["kind"] == "ReplicaSet"
    assert event["message"].startswith("Error creating: pods ")
    assert "exceeded quota: team" in event["message"]
