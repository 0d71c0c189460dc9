"""Lazy heartbeats of the simulated cluster: nothing is written until it is read."""

from datetime import datetime, timedelta

from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.ports.api_resources import LEASES, NODES
from dovetail.simulator.apiserver.conditions import get_condition
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.model import ManagedNodeGroup, Scenario

NODE_COUNT = 100
RENEWAL = timedelta(seconds=10)
GRACE_PERIOD = timedelta(seconds=40)


def idle_cluster(nodes: int = NODE_COUNT) -> SimulatedCluster:
    group = ManagedNodeGroup(instance_type="m5.large", count=nodes)
    scenario = Scenario(name="idle", about="Nodes without pods.", node_group=group)
    cluster = SimulatedCluster(scenario, catalog=bundled_catalog(), prices=bundled_prices())
    run(cluster, timedelta(minutes=1))
    return cluster


def run(cluster: SimulatedCluster, duration: timedelta) -> None:
    cluster.clock.run(until=cluster.clock.now() + duration)


def nodes(cluster: SimulatedCluster) -> list[Object]:
    return list(cluster.api.list(NODES).items)


def renewed_at(lease: Object) -> datetime:
    return datetime.fromisoformat(lease["spec"]["renewTime"])


def not_ready(cluster: SimulatedCluster) -> list[str]:
    return [
        node["metadata"]["name"]
        for node in nodes(cluster)
        if (get_condition(node, "Ready") or {}).get("status") != "True"
    ]


def test_an_idle_hour_has_no_write_and_every_node_stays_ready() -> None:
    cluster = idle_cluster()
    before = cluster.api.resource_version

    run(cluster, timedelta(hours=1))

    assert cluster.api.resource_version == before
    assert not_ready(cluster) == []
    assert len(nodes(cluster)) == NODE_COUNT


def test_a_node_is_unknown_forty_seconds_after_the_last_renewal_of_its_kubelet() -> None:
    cluster = idle_cluster()
    run(cluster, timedelta(hours=1, seconds=7))
    stopped = nodes(cluster)[3]

    cluster.kubelets.make_unresponsive(stopped["spec"]["providerID"])

    name = stopped["metadata"]["name"]
    last = renewed_at(cluster.api.get(LEASES, name, "kube-node-lease"))
    assert timedelta() <= cluster.clock.now() - last < RENEWAL
    cluster.clock.run(until=last + GRACE_PERIOD - timedelta(microseconds=1))
    assert not_ready(cluster) == []
    cluster.clock.run(until=last + GRACE_PERIOD)
    assert not_ready(cluster) == [name]


def test_a_kubelet_that_stops_costs_no_write_for_other_nodes() -> None:
    cluster = idle_cluster()
    run(cluster, timedelta(hours=1))
    written = cluster.kubelets.heartbeats.count

    for node in nodes(cluster)[:10]:
        cluster.kubelets.make_unresponsive(node["spec"]["providerID"])
    run(cluster, timedelta(minutes=1))

    assert len(not_ready(cluster)) == 10
    assert cluster.kubelets.heartbeats.count == written + 10


def test_a_lease_that_is_read_has_been_renewed_within_ten_seconds() -> None:
    cluster = idle_cluster(3)

    run(cluster, timedelta(minutes=17, seconds=3))

    ages = [cluster.clock.now() - renewed_at(lease) for lease in cluster.api.list(LEASES).items]
    assert len(ages) == 3
    assert all(timedelta() <= age < RENEWAL for age in ages)


def test_a_watch_of_leases_sees_every_renewal() -> None:
    cluster = idle_cluster(2)
    watch = cluster.api.watch(LEASES)
    watch.poll()

    run(cluster, timedelta(minutes=1))

    renewals = [renewed_at(event.object) for event in watch.poll()]
    assert len(renewals) == 2 * 6
    assert sorted(set(renewals)) == [renewals[0] + RENEWAL * number for number in range(6)]


def test_clients_of_the_sandbox_see_a_new_status_every_five_minutes() -> None:
    cluster = idle_cluster(2)
    cluster.kubelets.heartbeats.write_all()

    run(cluster, timedelta(minutes=12))

    for node in nodes(cluster):
        reported = datetime.fromisoformat((get_condition(node, "Ready") or {})["lastHeartbeatTime"])
        assert cluster.clock.now() - reported <= timedelta(minutes=5)
