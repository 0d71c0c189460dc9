"""Nodes that a NodePool's budget counts: BU1 of the lifecycle checklist."""

from datetime import timedelta

from dovetail.controllers.disruption import controller as disruption
from dovetail.model.karpenter.nodepool import Budget, Disruption
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.ports.api_resources import NODE_POOLS, NODES
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.controllers.running_nodes import add_running_node
from tests.support.kube import manifests
from tests.support.scheduling.instance_types import DEFAULT_TYPES

CONSOLIDATABLE = {"Consolidatable": Condition(status=TRUE, reason="Consolidatable", observed_generation=1)}


def test_nodes_without_nodeclaim_do_not_count_for_a_percentage_budget() -> None:
    env = ControllerEnvironment()
    env.cloud.types = DEFAULT_TYPES
    rules = Disruption(consolidate_after=timedelta(), budgets=(Budget(nodes="30%"),))
    env.add(NODE_POOLS, manifests.pool(disruption=rules))
    for number in range(10):
        add_running_node(env, f"node-{number}", conditions=CONSOLIDATABLE)
        env.add(NODES, manifests.node(f"unmanaged-{number}", taints=()))

    env.run(disruption.controller).wait(15)

    assert len([claim for claim in env.cache.claims() if claim.deleting]) == 3
