"""Scenario actions."""

from datetime import timedelta

import pytest

from dovetail.ports.api_resources import (
    DEPLOYMENTS,
    NAMESPACES,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    PODS,
    REPLICA_SETS,
)
from dovetail.ports.kube_errors import ApiError, NotFound
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.model import Apply, CapacityOutage, Delete, Interrupt, Load, Scale
from dovetail.simulator.scenario_actions import perform
from tests.support.simulator.api_server import names
from tests.support.simulator.clusters import (
    a_node_class,
    a_pool,
    an_app,
    build_cluster,
    build_scenario,
    scaled,
    wait,
)

OURS = ListOptions(label_selector="karpenter.sh/nodepool")


def running(pods: int, *, capacity_type: str = "spot") -> SimulatedCluster:
    """A cluster in which ``pods`` pods run, each on its own node."""
    pool = a_pool(capacity_type=capacity_type)
    cluster = build_cluster(build_scenario(objects=(a_node_class(), pool, an_app(replicas=pods))))
    wait(cluster, 30)
    assert cluster.recorder.running == pods
    return cluster


def replicas(cluster: SimulatedCluster, name: str = "web", namespace: str = "default") -> int:
    replica_count: int = cluster.api.get(DEPLOYMENTS, name, namespace)["spec"]["replicas"]
    return replica_count


# Apply.


def test_objects_are_created_with_their_namespaces() -> None:
    cluster = build_cluster()

    perform(Apply((an_app("api", replicas=2, namespace="shop"),)), cluster)

    assert replicas(cluster, "api", "shop") == 2
    assert "shop" in names(cluster.api.list(NAMESPACES).items)


def test_existing_objects_are_updated() -> None:
    cluster = build_cluster()

    perform(Apply((an_app(replicas=2),)), cluster)
    perform(Apply((an_app(replicas=3),)), cluster)

    assert replicas(cluster) == 3
    assert names(cluster.api.list(DEPLOYMENTS).items) == ["web"]


def test_invalid_objects_are_rejected() -> None:
    broken = a_pool()
    broken["spec"]["weight"] = 1000

    with pytest.raises(ApiError, match="weight"):
        perform(Apply((broken,)), build_cluster())


# Scale.


def test_a_workload_is_scaled() -> None:
    cluster = build_cluster()

    perform(scaled(5), cluster)

    assert replicas(cluster) == 5


def test_load_lets_an_autoscaler_add_pods_and_nodes_for_them() -> None:
    cluster = running(1)
    hpa = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 5,
        },
    }
    perform(Apply((hpa,)), cluster)

    perform(Load(name="web", namespace="default", metrics={"cpu": "100"}), cluster)
    wait(cluster, 180)

    assert replicas(cluster) == 5
    assert cluster.recorder.running == 5


def test_a_workload_of_another_namespace_and_kind_is_scaled() -> None:
    cluster = build_cluster(build_scenario(objects=(an_app("api", replicas=1, namespace="shop"),)))
    wait(cluster, 1)
    [name] = names(cluster.api.list(REPLICA_SETS, ListOptions(namespace="shop")).items)

    perform(Scale(kind="ReplicaSet", name=name, namespace="shop", replicas=0), cluster)

    assert cluster.api.get(REPLICA_SETS, name, "shop")["spec"]["replicas"] == 0


def test_a_static_nodepool_is_scaled_without_a_namespace() -> None:
    cluster = build_cluster(build_scenario(objects=(a_node_class(), a_pool(replicas=0))))

    perform(Scale(kind="NodePool", name="default", namespace="default", replicas=2), cluster)

    assert cluster.api.get(NODE_POOLS, "default")["spec"]["replicas"] == 2


def test_a_missing_object_cannot_be_scaled() -> None:
    with pytest.raises(NotFound, match="missing"):
        perform(scaled(1, "missing"), build_cluster())


# Delete.


def test_an_object_is_deleted_by_name() -> None:
    cluster = build_cluster()

    perform(Delete(kind="Deployment", name="web"), cluster)
    wait(cluster, 1)

    assert cluster.api.list(DEPLOYMENTS).items == []


def test_an_object_of_another_namespace_is_deleted() -> None:
    both = an_app(), an_app(namespace="shop")
    cluster = build_cluster(build_scenario(objects=both))

    perform(Delete(kind="Deployment", name="web", namespace="shop"), cluster)
    wait(cluster, 1)

    assert [deployment["metadata"]["namespace"] for deployment in cluster.api.list(DEPLOYMENTS).items] == [
        "default"
    ]


def test_without_a_name_the_oldest_are_deleted() -> None:
    cluster = running(1)
    old = names(cluster.api.list(PODS).items)
    perform(scaled(3), cluster)
    wait(cluster, 30)

    perform(Delete(kind="Pod", count=2), cluster)

    going = [pod for pod in cluster.api.list(PODS).items if pod["metadata"].get("deletionTimestamp")]
    assert len(going) == 2
    assert set(old) < set(names(going))


def test_only_nodes_of_a_nodepool_are_deleted() -> None:
    cluster = running(2)
    launched = names(cluster.api.list(NODES, OURS).items)

    perform(Delete(kind="Node", count=10), cluster)

    going = [node for node in cluster.api.list(NODES).items if node["metadata"].get("deletionTimestamp")]
    assert names(going) == launched


def test_a_missing_object_cannot_be_deleted() -> None:
    cluster = build_cluster()

    with pytest.raises(NotFound, match="missing"):
        perform(Delete(kind="Deployment", name="missing"), cluster)
    with pytest.raises(NotFound, match="there is no Node to delete"):
        perform(Delete(kind="Node"), cluster)


# Interrupt.


def interrupted(cluster: SimulatedCluster) -> int:
    """Number of nodes that are gone after the interruption notices."""
    before = set(names(cluster.api.list(NODE_CLAIMS).items))
    wait(cluster, 150)
    return len(before - set(names(cluster.api.list(NODE_CLAIMS).items)))


@pytest.mark.parametrize(("share", "count"), [(1.0, 4), (0.5, 2), (0.334, 1), (0.75, 3), (0.01, 1)])
def test_a_share_of_the_spot_instances_is_interrupted(share: float, count: int) -> None:
    cluster = running(4)

    perform(Interrupt(share), cluster)

    assert interrupted(cluster) == count


def test_on_demand_instances_are_never_interrupted() -> None:
    cluster = running(2, capacity_type="on-demand")

    perform(Interrupt(1.0), cluster)

    assert interrupted(cluster) == 0


# Capacity outage.


def test_offerings_in_an_outage_cannot_be_launched_until_it_ends() -> None:
    cluster = build_cluster()

    perform(CapacityOutage(types="m5.*", duration=timedelta(minutes=5)), cluster)
    perform(scaled(1), cluster)
    wait(cluster, 240)
    assert cluster.ec2.billing.instance_count == 1
    wait(cluster, 400)

    assert cluster.recorder.running == 1


@pytest.mark.parametrize(
    "others",
    [
        CapacityOutage(types="c5.*"),
        CapacityOutage(zones="us-west-2*"),
        CapacityOutage(capacity_types="on-demand"),
    ],
    ids=["types", "zones", "capacity types"],
)
def test_offerings_outside_an_outage_can_be_launched(others: CapacityOutage) -> None:
    cluster = build_cluster()

    perform(others, cluster)
    perform(scaled(1), cluster)
    wait(cluster, 30)

    assert cluster.recorder.running == 1


def test_an_outage_without_a_duration_does_not_end() -> None:
    cluster = build_cluster()

    perform(CapacityOutage(), cluster)
    perform(scaled(1), cluster)
    wait(cluster, 1800)

    assert cluster.ec2.billing.instance_count == 1
