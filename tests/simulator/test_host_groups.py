"""Pods that must share a host, and whose first member was bound where the others find no room."""

from datetime import timedelta
from functools import cache
from typing import Any

import msgspec
import pytest

from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.settings import FeatureGates
from dovetail.ports.api_resources import DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.cluster import SimulatedCluster
from tests.support.simulator.clusters import a_node_class, a_pool, an_app, build_scenario, wait

TYPES = ["m5.large", "m5.2xlarge"]
"""The first has room for one pod, the second for all."""
TOGETHER = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "group"}}}
        ]
    }
}


@cache
def a_catalog() -> Catalog:
    catalog = bundled_catalog()
    types = tuple(known for known in catalog.instance_types if known.name in (*TYPES, "t3.small"))
    return msgspec.structs.replace(catalog, instance_types=types)


def a_stuck_group(*, enabled: bool, **template: Any) -> SimulatedCluster:
    """Return a cluster with one pod of a group bound, and two that find no room beside it."""
    pool = a_pool(capacity_type="on-demand")
    pool["spec"]["template"]["spec"]["requirements"][1] = {
        "key": "node.kubernetes.io/instance-type",
        "operator": "In",
        "values": TYPES,
    }
    pool["spec"]["disruption"]["consolidateAfter"] = "Never"
    group = an_app("group", replicas=1)
    group["spec"]["template"]["spec"] |= {"affinity": TOGETHER, "terminationGracePeriodSeconds": 5}
    group["spec"]["template"]["metadata"] |= template
    cluster = SimulatedCluster(
        build_scenario(objects=[a_node_class(), pool, group]),
        catalog=a_catalog(),
        prices=bundled_prices(),
        gates=FeatureGates(HostGroupReplacement=enabled),
    )
    wait(cluster, 60)
    cluster.api.patch(DEPLOYMENTS, "group", {"spec": {"replicas": 3}}, PatchType.MERGE, "default")
    return cluster


def get_hosts(cluster: SimulatedCluster) -> list[str]:
    """Return the nodes of all pods of the group; empty for a pending pod."""
    pods = cluster.api.list(PODS).items
    return [pod["spec"].get("nodeName", "") for pod in pods if pod["metadata"]["labels"]["app"] == "group"]


def test_group_is_stuck_without_the_feature_gate() -> None:
    cluster = a_stuck_group(enabled=False)

    wait(cluster, 600)

    assert sorted(map(bool, get_hosts(cluster))) == [False, False, True]


def test_node_of_a_stuck_group_is_replaced_by_one_with_room_for_all() -> None:
    cluster = a_stuck_group(enabled=True)

    wait(cluster, 240)

    hosts = get_hosts(cluster)
    assert len(hosts) == 3
    assert len(set(hosts)) == 1
    assert hosts[0]


def test_group_with_a_protected_pod_is_left_alone() -> None:
    cluster = a_stuck_group(enabled=True, annotations={"karpenter.sh/do-not-disrupt": "true"})

    wait(cluster, 600)

    assert sorted(map(bool, get_hosts(cluster))) == [False, False, True]


@pytest.mark.parametrize(("allowed", "together"), [(0, False), (1, True)])
def test_group_is_moved_within_its_pod_disruption_budget(allowed: int, together: bool) -> None:
    cluster = a_stuck_group(enabled=True)
    cluster.api.create(
        POD_DISRUPTION_BUDGETS,
        {
            "metadata": {"name": "group"},
            "spec": {"maxUnavailable": 2 + allowed, "selector": {"matchLabels": {"app": "group"}}},
        },
        "default",
    )

    wait(cluster, 300)

    assert (len(set(get_hosts(cluster))) == 1) is together


def test_group_that_was_reunited_is_not_moved_again() -> None:
    cluster = a_stuck_group(enabled=True)
    wait(cluster, 240)
    hosts = get_hosts(cluster)
    launches = len(cluster.ec2.billing.launches)

    cluster.clock.run(until=cluster.clock.now() + timedelta(minutes=20))

    assert get_hosts(cluster) == hosts
    assert len(cluster.ec2.billing.launches) == launches
