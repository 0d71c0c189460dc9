"""Simulated cluster: its start, applied objects, and restarts of the operator."""

import gc
import weakref
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from dovetail.data.bundled import bundled_prices
from dovetail.errors import InvalidInputError, ScenarioError
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES, PODS
from dovetail.simulator.cluster import START, SimulatedCluster
from dovetail.simulator.kube_client import start_reflectors
from dovetail.simulator.scenario.model import Delete, ManagedNodeGroup
from dovetail.simulator.scenario_actions import perform
from dovetail.state.cluster.cache import ClusterCache
from tests.support.simulator.api_server import a_config_map, names
from tests.support.simulator.clusters import (
    a_node_class,
    a_pool,
    an_app,
    build_cluster,
    build_scenario,
    scaled,
    small_catalog,
    wait,
)


def versions(cluster: SimulatedCluster) -> dict[str, str]:
    """Every claim, node and pod with its resourceVersion."""
    return {
        obj["metadata"]["uid"]: obj["metadata"]["resourceVersion"]
        for resource in (NODE_CLAIMS, NODES, PODS)
        for obj in cluster.api.list(resource).items
    }


def standing(cluster: SimulatedCluster) -> tuple[int, int, int, int]:
    """Running pods, billed instances, claims, nodes."""
    return (
        cluster.recorder.running,
        cluster.ec2.billing.instance_count,
        len(cluster.api.list(NODE_CLAIMS).items),
        len(cluster.api.list(NODES).items),
    )


# At the start.


def test_an_empty_cluster_has_no_nodes_and_starts_at_the_given_time() -> None:
    start = datetime(2030, 5, 1, tzinfo=UTC)

    cluster = build_cluster(build_scenario(objects=(), node_group=0), start=start)

    assert cluster.clock.now() == start
    assert standing(cluster) == (0, 0, 0, 0)


def test_nodes_of_the_node_group_are_ready_at_the_start_and_billed_from_it() -> None:
    cluster = build_cluster(build_scenario(node_group=3))

    homes = cluster.api.list(NODES).items
    assert names(homes) == [f"ip-10-250-0-{number}.ec2.internal" for number in (10, 11, 12)]
    assert set(cluster.recorder.node_ready) == set(names(homes))
    assert cluster.ec2.billing.instance_count == 3
    hourly = 3 * bundled_prices().list_prices["t3.small"]
    assert cluster.ec2.billing.price_per_hour() == pytest.approx(hourly)
    assert cluster.ec2.billing.cost(START + timedelta(hours=1)) == pytest.approx(hourly)


def test_nodes_of_the_node_group_are_spread_over_zones_and_labelled() -> None:
    cluster = build_cluster(build_scenario(node_group=3))

    labels = [node["metadata"]["labels"] for node in cluster.api.list(NODES).items]
    assert len({node_labels["topology.kubernetes.io/zone"] for node_labels in labels}) == 3
    assert {node_labels["node.kubernetes.io/instance-type"] for node_labels in labels} == {"t3.small"}
    assert {node_labels["kubernetes.io/arch"] for node_labels in labels} == {"amd64"}
    assert not any("karpenter.sh/nodepool" in node_labels for node_labels in labels)


def test_hundreds_of_nodes_in_the_node_group_have_unique_addresses() -> None:
    cluster = build_cluster(build_scenario(node_group=300, objects=()))

    assert len(cluster.api.list(NODES).items) == 300
    assert "ip-10-250-1-0.ec2.internal" in names(cluster.api.list(NODES).items)


def test_nodes_of_the_node_group_are_used_and_never_disrupted() -> None:
    cluster = build_cluster(
        build_scenario(objects=(a_node_class(), a_pool(), an_app(replicas=0)), node_group=2)
    )
    tiny = an_app("tiny", replicas=2)
    requests = tiny["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    requests.update({"cpu": "100m", "memory": "128Mi"})

    cluster.apply([tiny])
    wait(cluster, 300)

    assert standing(cluster) == (2, 2, 0, 2)
    assert cluster.invariants.violations == []


def test_a_node_group_with_an_unknown_instance_type_is_a_validation_error() -> None:
    scenario = msgspec.structs.replace(
        build_scenario(), node_group=ManagedNodeGroup(count=1, instance_type="m5.tiny")
    )

    with pytest.raises(InvalidInputError, match=r"'m5\.tiny' is not available in us-east-1"):
        build_cluster(scenario)


def test_manifests_that_the_api_server_rejects_are_a_scenario_error() -> None:
    broken = a_pool(weight=1000)

    with pytest.raises(ScenarioError, match=r"^manifests: .*weight"):
        build_cluster(build_scenario(objects=(broken,)))


# Applying.


def test_applying_twice_changes_nothing() -> None:
    cluster = build_cluster()
    settings = {"apiVersion": "v1", "kind": "ConfigMap", **a_config_map("a", b="c")}
    objects = (a_node_class(), a_pool(), an_app(), settings)
    cluster.apply(objects)
    wait(cluster, 5)
    before = cluster.api.resource_version

    cluster.apply(objects)

    assert cluster.api.resource_version == before


def test_a_user_can_remove_fields_of_a_nodepool_with_kubectl_apply() -> None:
    """Kubectl finds them in the last-applied annotation that the cluster writes."""
    cluster = build_cluster()

    notes = cluster.api.get(NODE_POOLS, "default")["metadata"]["annotations"]

    assert "consolidateAfter" in notes["kubectl.kubernetes.io/last-applied-configuration"]


def test_a_kind_that_is_not_served_cannot_be_applied() -> None:
    gadget = {"apiVersion": "v1", "kind": "Gadget", "metadata": {"name": "a"}}

    with pytest.raises(ValueError, match="v1 Gadget is not served"):
        build_cluster().apply([gadget])


# The operator.


def test_the_cache_of_the_operator_equals_one_that_decodes_all_objects_anew() -> None:
    cluster = build_cluster()
    perform(scaled(2), cluster)

    for second in range(60):
        if second == 30:
            perform(Delete(kind="Node"), cluster)
        wait(cluster, 1)
        anew = ClusterCache()
        for stop in start_reflectors(anew, cluster.api, cluster.clock):
            stop()
        assert cluster.operator.cache.objects() == anew.objects()


# Restarting.


def test_a_restart_keeps_everything_but_the_operator() -> None:
    cluster = build_cluster()
    perform(scaled(2), cluster)
    wait(cluster, 30)
    before, was = standing(cluster), versions(cluster)

    cluster.restart()

    assert standing(cluster) == before == (2, 3, 2, 3)
    assert versions(cluster) == was


def test_a_restart_of_a_converged_cluster_changes_no_pod_and_no_claim() -> None:
    cluster = build_cluster()
    perform(scaled(2), cluster)
    wait(cluster, 120)
    was = {uid: version for uid, version in versions(cluster).items() if uid in _uids(cluster)}

    cluster.restart()
    wait(cluster, 5)

    now = versions(cluster)
    assert {uid: now.get(uid) for uid in was} == was


def _uids(cluster: SimulatedCluster) -> set[str]:
    """UIDs of claims and pods; nodes change with every heartbeat."""
    return {
        obj["metadata"]["uid"] for resource in (NODE_CLAIMS, PODS) for obj in cluster.api.list(resource).items
    }


@pytest.mark.parametrize("moment", [0.5, 1.1, 1.3, 2, 5, 8, 9.3, 11])
def test_a_launch_is_finished_after_a_restart_at_any_time(moment: float) -> None:
    cluster = build_cluster()
    perform(scaled(2), cluster)

    wait(cluster, moment)
    cluster.restart()
    wait(cluster, 40)

    assert standing(cluster) == (2, 3, 2, 3)
    assert cluster.ec2.billing.claims_launched_twice() == []
    assert cluster.invariants.violations == []


@pytest.mark.parametrize("moment", [0.5, 2, 4, 7, 12])
def test_a_termination_is_finished_after_a_restart_at_any_time(moment: float) -> None:
    cluster = build_cluster()
    perform(scaled(2), cluster)
    wait(cluster, 30)
    before = set(names(cluster.api.list(NODE_CLAIMS).items))
    perform(Delete(kind="Node"), cluster)

    wait(cluster, moment)
    cluster.restart()
    wait(cluster, 60)

    assert standing(cluster) == (2, 3, 2, 3)
    assert len(before & set(names(cluster.api.list(NODE_CLAIMS).items))) == 1
    assert cluster.invariants.violations == []


def test_a_killed_operator_writes_nothing() -> None:
    cluster = build_cluster()

    cluster.operator.kill()
    perform(scaled(2), cluster)
    wait(cluster, 600)

    assert standing(cluster) == (0, 1, 0, 1)
    assert cluster.recorder.unsettled == 2


@pytest.mark.parametrize("moment", [0.5, 1.2, 5, 60])
def test_a_killed_operator_is_freed_at_once(moment: float) -> None:
    cluster = build_cluster(build_scenario(objects=(a_node_class(), a_pool(), an_app(replicas=5))))
    wait(cluster, moment)
    operator, loop = weakref.ref(cluster.operator), weakref.ref(cluster.operator.loop)

    cluster.restart()
    cluster.clock.run(until=cluster.clock.now())  # Watches deliver their last events.
    gc.collect()

    assert operator() is None
    assert loop() is None


def test_metrics_continue_after_a_restart() -> None:
    cluster = build_cluster()
    perform(scaled(1), cluster)
    wait(cluster, 30)
    created = cluster.metrics.total("karpenter_nodeclaims_created_total")

    cluster.restart()
    perform(scaled(2), cluster)
    wait(cluster, 30)

    assert created == 1
    assert cluster.metrics.total("karpenter_nodeclaims_created_total") == 2


def test_two_clusters_of_one_seed_have_equal_runs() -> None:
    runs = []
    for _ in range(2):
        cluster = SimulatedCluster(build_scenario(), catalog=small_catalog(), prices=bundled_prices())
        perform(scaled(3), cluster)
        wait(cluster, 40)
        runs.append([line.as_json() for line in cluster.log.lines])

    assert runs[0] == runs[1]
    assert runs[0]
