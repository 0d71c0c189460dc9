"""Node replacement, interrupted after every write and every launch, and resumed."""

import pytest

from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.simulator.apiserver.storage.frozen_object import get_field
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.model import CapacityOutage
from dovetail.simulator.scenario_actions import perform
from tests.support.simulator.clusters import scaled, wait
from tests.support.simulator.crashes import CrashPoint, build_mortal_cluster, crash_at_every_step
from tests.support.simulator.disruption import (
    a_catalog,
    a_small_app,
    change_labels,
    claims,
    consolidating_pool,
    disruption_budget,
    disruption_scenario,
    list_instance_types,
)

pytestmark = pytest.mark.slow


def list_disrupted(cluster: SimulatedCluster) -> list[str]:
    """Nodes with the disrupted taint, and claims with a DisruptionReason."""
    nodes = [
        node["metadata"]["name"]
        for node in cluster.api.list(NODES).items
        if any(taint["key"] == "karpenter.sh/disrupted" for taint in get_field(node, "spec", "taints") or ())
    ]
    return nodes + [
        claim["metadata"]["name"]
        for claim in cluster.api.list(NODE_CLAIMS).items
        if any(
            condition["type"] == "DisruptionReason"
            for condition in get_field(claim, "status", "conditions") or ()
        )
    ]


def drifting_cluster(crash_point: CrashPoint) -> SimulatedCluster:
    pool = consolidating_pool(types=("m5.large",), after="Never")
    app = a_small_app("web", cpu="1", memory="4Gi")
    scenario = disruption_scenario(pool, app, disruption_budget("web"))
    return build_mortal_cluster(scenario, a_catalog(), crash_point)


def two_nodes(cluster: SimulatedCluster) -> None:
    perform(scaled(2), cluster)
    wait(cluster, 30)


def test_drifted_nodes_are_replaced_once_after_a_crash_at_any_step() -> None:
    def check(cluster: SimulatedCluster, when: str) -> None:
        old = {claim["metadata"]["name"] for claim in claims(cluster)}
        change_labels(cluster, tier="gold")
        wait(cluster, 240)
        new = {claim["metadata"]["name"] for claim in claims(cluster)}
        assert (len(old), len(new), old & new) == (2, 2, set()), when
        assert len(cluster.ec2.billing.launches) == 1 + 2 + 2, when
        assert cluster.ec2.billing.instance_count == 1 + 2, when
        assert (cluster.recorder.running, list_disrupted(cluster)) == (2, []), when

    steps = crash_at_every_step(drifting_cluster, two_nodes, check)

    assert steps > 30


def oversized_cluster(crash_point: CrashPoint) -> SimulatedCluster:
    scenario = disruption_scenario(consolidating_pool(), a_small_app("web"), a_small_app("api"))
    return build_mortal_cluster(scenario, a_catalog(), crash_point)


def one_large_node(cluster: SimulatedCluster) -> None:
    perform(scaled(13, "web"), cluster)
    perform(scaled(1, "api"), cluster)
    wait(cluster, 30)
    perform(scaled(1, "web"), cluster)
    wait(cluster, 45)


def test_an_oversized_node_is_replaced_once_after_a_crash_at_any_step() -> None:
    def check(cluster: SimulatedCluster, when: str) -> None:
        wait(cluster, 300)
        assert list_instance_types(cluster) == ["m5.large"], when
        assert len(cluster.ec2.billing.launches) == 1 + 1 + 1, when
        assert cluster.ec2.billing.instance_count == 1 + 1, when
        assert (cluster.recorder.running, list_disrupted(cluster)) == (2, []), when

    steps = crash_at_every_step(oversized_cluster, one_large_node, check)

    assert steps > 15


def test_nodes_without_capacity_for_a_replacement_are_untainted_after_a_crash_at_any_step() -> None:
    def check(cluster: SimulatedCluster, when: str) -> None:
        old = {claim["metadata"]["name"] for claim in claims(cluster)}
        perform(CapacityOutage(), cluster)
        change_labels(cluster, tier="gold")
        wait(cluster, 120)
        assert {claim["metadata"]["name"] for claim in claims(cluster)} == old, when
        assert (cluster.recorder.running, list_disrupted(cluster)) == (2, []), when
        assert cluster.ec2.billing.instance_count == 1 + 2, when

    steps = crash_at_every_step(drifting_cluster, two_nodes, check)

    assert steps > 10
