"""Horizontal pod autoscaler: replicas follow the load that annotations declare."""

from typing import Any

from dovetail.ports.api_resources import DEPLOYMENTS, EVENTS, HORIZONTAL_POD_AUTOSCALERS
from dovetail.simulator.apiserver.options import PatchType
from tests.support.simulator.controller_manager import WorkloadCluster, a_workload


def autoscaled(*, replicas: int = 2, cpu: str = "500m", **spec: Any) -> WorkloadCluster:
    """Return a cluster with a Deployment and its autoscaler, with a CPU target of 50 %."""
    cluster = WorkloadCluster()
    workload = a_workload(replicas=replicas)
    workload["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    cluster.create(DEPLOYMENTS, workload)
    target = {"type": "Utilization", "averageUtilization": 50}
    hpa = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name_of(workload)},
            "minReplicas": 2,
            "maxReplicas": 10,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            **spec,
        },
    }
    cluster.create(HORIZONTAL_POD_AUTOSCALERS, hpa)
    cluster.wait(60)
    return cluster


def name_of(workload: dict[str, Any]) -> str:
    return str(workload["metadata"]["name"])


def load(cluster: WorkloadCluster, **amounts: str) -> None:
    annotations = {f"load.dovetail.sh/{name}": amount for name, amount in amounts.items()}
    patch = {"metadata": {"annotations": annotations}}
    cluster.patch(HORIZONTAL_POD_AUTOSCALERS, "web", patch, PatchType.MERGE, "default")


def replicas(cluster: WorkloadCluster) -> int:
    (deployment,) = cluster.list(DEPLOYMENTS).items
    return int(deployment["spec"]["replicas"])


def conditions(cluster: WorkloadCluster) -> dict[str, str]:
    status = cluster.get(HORIZONTAL_POD_AUTOSCALERS, "web", "default")["status"]
    return {condition["type"]: condition["reason"] for condition in status["conditions"]}


def test_load_above_the_target_adds_pods_until_each_has_its_target() -> None:
    cluster = autoscaled()

    load(cluster, cpu="2")
    cluster.wait(120)

    # 2 CPUs over pods of 500m at 50 % are 8 pods.
    assert replicas(cluster) == 8
    status = cluster.get(HORIZONTAL_POD_AUTOSCALERS, "web", "default")["status"]
    assert status["currentMetrics"][0]["resource"]["current"]["averageUtilization"] == 50


def test_every_change_of_replicas_has_an_event_with_its_reason() -> None:
    cluster = autoscaled(replicas=1)
    load(cluster, cpu="2")
    cluster.wait(120)

    load(cluster, cpu="100m")
    cluster.wait(400)

    events = [event for event in cluster.list(EVENTS).items if event["reason"] == "SuccessfulRescale"]
    assert {event["involvedObject"]["kind"] for event in events} == {"HorizontalPodAutoscaler"}
    assert sorted(event["message"] for event in events) == [
        "New size: 2; reason: All metrics below target",
        "New size: 2; reason: Current number of replicas below Spec.MinReplicas",
        "New size: 4; reason: cpu resource utilization (percentage of request) above target",
        "New size: 8; reason: cpu resource utilization (percentage of request) above target",
    ]


def test_a_sync_doubles_the_pods_at_most() -> None:
    cluster = autoscaled()

    load(cluster, cpu="100")
    cluster.wait(1)
    first = replicas(cluster)
    cluster.wait(15)

    assert (first, replicas(cluster)) == (4, 8)


def test_default_policies_allow_four_more_pods_or_twice_as_many_in_fifteen_seconds() -> None:
    cluster = autoscaled(behavior={"scaleDown": {"selectPolicy": "Disabled"}})

    load(cluster, cpu="100")
    cluster.wait(1)

    assert replicas(cluster) == 6


def test_pods_are_removed_only_five_minutes_after_the_load() -> None:
    cluster = autoscaled()
    load(cluster, cpu="2")
    cluster.wait(120)

    load(cluster, cpu="100m")
    cluster.wait(280)
    meanwhile = replicas(cluster)
    cluster.wait(60)

    assert meanwhile == 8
    assert replicas(cluster) == 2


def test_the_behavior_of_an_autoscaler_limits_it() -> None:
    slow = {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}
    cluster = autoscaled(behavior=slow)

    load(cluster, cpu="2")
    cluster.wait(100)

    assert replicas(cluster) == 4


def test_the_bounds_hold_without_any_metric() -> None:
    below, above = autoscaled(replicas=1), autoscaled(replicas=30)

    assert [replicas(below), replicas(above)] == [2, 10]
    assert conditions(below)["ScalingActive"] == "FailedGetResourceMetric"


def test_external_metrics_scale_by_their_average_value() -> None:
    target = {"type": "AverageValue", "averageValue": "10"}
    metric = {"type": "External", "external": {"metric": {"name": "queue_length"}, "target": target}}
    cluster = autoscaled(metrics=[metric])

    load(cluster, queue_length="55")
    cluster.wait(60)

    assert replicas(cluster) == 6
    assert conditions(cluster)["ScalingLimited"] == "DesiredWithinRange"


def test_a_target_that_does_not_exist_is_reported() -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}
    cluster = autoscaled(scaleTargetRef=reference)

    assert conditions(cluster) == {"AbleToScale": "FailedGetScale"}
    assert replicas(cluster) == 2


def test_a_second_sync_changes_nothing() -> None:
    cluster = autoscaled()
    load(cluster, cpu="2")
    cluster.wait(120)
    before = cluster.get(HORIZONTAL_POD_AUTOSCALERS, "web", "default")["metadata"]["resourceVersion"]

    cluster.wait(600)

    assert cluster.get(HORIZONTAL_POD_AUTOSCALERS, "web", "default")["metadata"]["resourceVersion"] == before
