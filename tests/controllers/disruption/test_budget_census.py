"""Whose nodes a NodePool's budget counts: BU1, through the controller."""

from datetime import timedelta

from dovetail.controllers.disruption import controller as disruption
from dovetail.model.karpenter.nodepool import Budget, Disruption
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.ports.api_resources import NODE_POOLS, NODES
from tests.support import wire
from tests.support.catalog import DEFAULT_TYPES
from tests.support.fleet import a_machine
from tests.support.world import World

CONSOLIDATABLE = {"Consolidatable": Condition(status=TRUE, reason="Consolidatable", generation=1)}


def test_nodes_that_are_not_ours_are_not_counted_into_a_share() -> None:
    world = World()
    world.cloud.types = DEFAULT_TYPES
    rules = Disruption(consolidate_after=timedelta(), budgets=(Budget(nodes="30%"),))
    world.add(NODE_POOLS, wire.pool(disruption=rules))
    for number in range(10):
        a_machine(world, f"node-{number}", conditions=CONSOLIDATABLE)
        world.add(NODES, wire.node(f"theirs-{number}", taints=()))

    world.run(disruption.Disruption).wait(15)

    assert len([one for one in world.mirror.claims() if one.deleting]) == 3
