"""Node replacement in a whole cluster: consolidation, drift, and failures."""

import math

import pytest

from dovetail.data.bundled import bundled_prices
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.simulator.apiserver.storage.frozen_object import get_field
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.model import CapacityOutage
from dovetail.simulator.scenario_actions import perform
from tests.support.simulator.clusters import scaled, wait
from tests.support.simulator.disruption import (
    a_catalog,
    a_small_app,
    change_labels,
    claims,
    consolidating_pool,
    disruption_budget,
    disruption_scenario,
    event_messages,
    list_instance_types,
)

pytestmark = pytest.mark.slow


def build_cluster(pool: dict[str, object], *others: dict[str, object]) -> SimulatedCluster:
    cluster = SimulatedCluster(
        disruption_scenario(pool, *others), catalog=a_catalog(), prices=bundled_prices()
    )
    wait(cluster, 3)
    return cluster


def tainted(cluster: SimulatedCluster) -> int:
    nodes = cluster.api.list(NODES).items
    return sum(
        any(taint["key"] == "karpenter.sh/disrupted" for taint in get_field(node, "spec", "taints") or ())
        for node in nodes
    )


def test_a_half_empty_cluster_is_consolidated_onto_fewer_nodes() -> None:
    apps = [a_small_app(name) for name in ("web", "api", "job")]
    cluster = build_cluster(consolidating_pool(types=("m5.large", "m5.xlarge")), *apps)
    for name, replicas in (("web", 12), ("api", 12), ("job", 6)):
        perform(scaled(replicas, name), cluster)
    wait(cluster, 60)
    before = len(claims(cluster))

    perform(scaled(2, "web"), cluster)
    perform(scaled(1, "api"), cluster)
    wait(cluster, 300)
    launched = len(cluster.ec2.billing.launches)
    wait(cluster, 600)

    assert before == 5
    assert cluster.recorder.running == 9
    assert list_instance_types(cluster) == ["m5.large", "m5.xlarge"]
    assert len(cluster.ec2.billing.launches) == launched  # It has converged.
    assert cluster.invariants.violations == []


def test_an_oversized_node_is_replaced_once_a_smaller_one_is_initialized() -> None:
    cluster = build_cluster(consolidating_pool(), a_small_app("web"), a_small_app("api"))
    perform(scaled(13, "web"), cluster)
    perform(scaled(1, "api"), cluster)
    wait(cluster, 60)
    before = list_instance_types(cluster)

    perform(scaled(1, "web"), cluster)
    fewest = 2
    for _ in range(120):
        wait(cluster, 2)
        fewest = min(fewest, len(cluster.api.list(NODES).items))

    assert before == ["m5.2xlarge"]
    assert list_instance_types(cluster) == ["m5.large"]
    assert fewest == 2  # The node of the node group, and one of the NodePool.
    assert cluster.recorder.running == 2
    for reason in ("DisruptionLaunching", "DisruptionWaitingReadiness", "DisruptionTerminating"):
        assert event_messages(cluster, reason) != []
    assert cluster.invariants.violations == []


def test_drifted_nodes_are_replaced_within_the_budget() -> None:
    pool = consolidating_pool(types=("m5.large",), budget="2", after="Never")
    app = a_small_app("web", cpu="1", memory="4Gi")
    cluster = build_cluster(pool, app, disruption_budget("web"))
    perform(scaled(6), cluster)
    wait(cluster, 60)
    old = {claim["metadata"]["name"] for claim in claims(cluster)}

    change_labels(cluster, tier="gold")
    most = 0
    for _ in range(200):
        wait(cluster, 2)
        most = max(most, tainted(cluster))

    assert len(old) == 6
    assert most == 2
    assert len(claims(cluster)) == 6
    assert not old & {claim["metadata"]["name"] for claim in claims(cluster)}
    assert all(claim["metadata"]["labels"]["tier"] == "gold" for claim in claims(cluster))
    assert cluster.recorder.running == 6
    assert len(cluster.ec2.billing.launches) == 1 + 6 + 6
    assert cluster.invariants.violations == []


def test_a_replacement_without_capacity_leaves_the_node_unchanged() -> None:
    pool = consolidating_pool(types=("m5.large",), after="Never")
    cluster = build_cluster(pool, a_small_app("web", cpu="1", memory="4Gi"))
    perform(scaled(1), cluster)
    wait(cluster, 60)
    (old,) = [claim["metadata"]["name"] for claim in claims(cluster)]

    perform(CapacityOutage(), cluster)
    change_labels(cluster, tier="gold")
    wait(cluster, 120)

    (left,) = cluster.api.list(NODE_CLAIMS).items
    assert left["metadata"]["name"] == old
    assert tainted(cluster) == 0
    kinds = {condition["type"] for condition in left["status"]["conditions"]}
    assert "DisruptionReason" not in kinds
    assert cluster.recorder.running == 1


def test_a_day_of_load_changes_converges_without_equal_replacements() -> None:
    sizes = {"web": ("700m", 40), "api": ("300m", 60), "job": ("1500m", 16)}
    apps = [a_small_app(name, cpu=cpu) for name, (cpu, _) in sizes.items()]
    cluster = build_cluster(consolidating_pool(budget="10%"), *apps)

    most = 0
    for quarter in range(96):
        share = (1 - math.cos(2 * math.pi * quarter / 96)) / 2
        for name, (_, peak) in sizes.items():
            perform(scaled(int(4 + peak * share), name), cluster)
        wait(cluster, 900)
        most = max(most, len(claims(cluster)))
    wait(cluster, 3 * 3600)
    launched = len(cluster.ec2.billing.launches)
    wait(cluster, 4 * 3600)

    assert launched <= 3 * most
    assert len(cluster.ec2.billing.launches) == launched
    assert (cluster.recorder.running, cluster.recorder.unsettled) == (12, 0)
    assert list_instance_types(cluster) == ["m5.2xlarge", "m5.large"]
    assert cluster.invariants.violations == []
