"""Keys of NodePools that a sweep varies: every value is accepted by the API server."""

import pytest

from dovetail.data.bundled import bundled_catalog
from dovetail.ports.api_resources import NODE_POOLS
from dovetail.replay.sweep.nodepool_keys import NODEPOOL_KEYS, PoolChanges, check_value
from dovetail.simulator.cluster import SimulatedCluster
from tests.replay.traces import START, nodepool, options

CATALOG = bundled_catalog()
VALUES = {
    "consolidationPolicy": ("Balanced", ("spec", "disruption", "consolidationPolicy"), "Balanced"),
    "consolidateAfter": ("1h30m", ("spec", "disruption", "consolidateAfter"), "1h30m"),
    "budget": ("20%", ("spec", "disruption", "budgets"), [{"nodes": "20%"}]),
    "expireAfter": ("Never", ("spec", "template", "spec", "expireAfter"), "Never"),
    "terminationGracePeriod": ("1h", ("spec", "template", "spec", "terminationGracePeriod"), "1h"),
    "capacityTypes": ("spot+on-demand", ("karpenter.sh/capacity-type", "In"), ["spot", "on-demand"]),
    "spotShare": ("0.5", ("karpenter.sh/capacity-type", "In"), ["spot", "on-demand"]),
    "architectures": ("arm64", ("kubernetes.io/arch", "In"), ["arm64"]),
    "instanceCategories": ("c+m", ("karpenter.k8s.aws/instance-category", "In"), ["c", "m"]),
    "maxCpu": ("16", ("karpenter.k8s.aws/instance-cpu", "Lt"), ["17"]),
}
WRONG = {
    "consolidationPolicy": "WhenUnderutilized",
    "consolidateAfter": "soon",
    "budget": "10 nodes",
    "expireAfter": "1d",
    "terminationGracePeriod": "Never",
    "capacityTypes": "spot+ondemand",
    "spotShare": "50%",
    "architectures": "x86",
    "instanceCategories": "c,m",
    "maxCpu": "0",
}


@pytest.mark.parametrize("key", NODEPOOL_KEYS)
def test_a_value_is_set_and_accepted_by_the_api_server(key: str) -> None:
    text, path, expected = VALUES[key]
    cluster = SimulatedCluster.from_snapshot(
        (), now=START, catalog=options().catalog, prices=options().prices
    )

    changed = PoolChanges((("", key, text),))(nodepool())
    cluster.apply([changed])

    assert not check_value(key, text, CATALOG)
    stored = cluster.api.get(NODE_POOLS, "default")
    if path[0] == "spec":
        value = stored
        for step in path:
            value = value[step]
    else:
        requirements = stored["spec"]["template"]["spec"]["requirements"]
        (value,) = [entry["values"] for entry in requirements if (entry["key"], entry["operator"]) == path]
    assert _plain(value) == expected


@pytest.mark.parametrize("key", NODEPOOL_KEYS)
def test_a_wrong_value_is_refused_with_examples(key: str) -> None:
    assert WRONG[key].split("+")[-1] in check_value(key, WRONG[key], CATALOG)


def test_a_value_that_the_api_server_rejects_is_refused() -> None:
    assert "longer than Kubernetes can count" in check_value("consolidateAfter", "999999999h", CATALOG)
    assert "'200%' is neither" in check_value("budget", "200%", CATALOG)


def test_a_category_that_the_catalogue_does_not_have_is_refused() -> None:
    assert check_value("instanceCategories", "c+zz", CATALOG).startswith("'zz' is not one of a, c, d, ")


def test_a_key_of_one_nodepool_leaves_the_others_alone() -> None:
    change = PoolChanges((("a", "consolidateAfter", "7m"),))

    assert change(nodepool("a"))["spec"]["disruption"]["consolidateAfter"] == "7m"
    assert change(nodepool("b")) == nodepool("b")


def test_a_spot_share_of_zero_leaves_reserved_and_on_demand() -> None:
    pool = nodepool("default", "spot", "reserved")

    changed = PoolChanges((("", "spotShare", "0"),))(pool)

    assert changed["spec"]["template"]["spec"]["requirements"][-1]["values"] == ["on-demand", "reserved"]


def _plain(value: object) -> object:
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return dict(value) if hasattr(value, "keys") else value
