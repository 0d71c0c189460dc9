"""Nodes of the node group, with price books that do not have their type."""

import pytest

from dovetail.codec.catalog.prices import read_prices
from dovetail.data.bundled import bundled_catalog
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.load import read_scenario

STORY = b"""
name: homes
about: two nodes, and nothing happens
home: {count: 2, instanceType: t3.medium}
"""
HEAD = b"instance_type,region,zone_id,on_demand_usd_per_hour,spot_usd_per_hour\n"


@pytest.mark.parametrize(
    ("line", "cost"),
    [
        (b"m5.large,us-east-1,us-east-1a,0.096,\n", 0),
        (b"t3.medium,us-east-1,us-east-1a,0.5,\nt3.medium,us-east-1,us-east-1b,0.5,\n", 1.0),
    ],
)
def test_nodes_without_a_known_price_cost_nothing(line: bytes, cost: float) -> None:
    prices = read_prices("prices.csv", HEAD + line)

    cluster = SimulatedCluster(read_scenario("homes.yaml", STORY), catalog=bundled_catalog(), prices=prices)

    assert cluster.ec2.billing.instance_count == 2
    assert cluster.ec2.billing.price_per_hour() == cost
