"""For every node: why it stays, and what it costs that it does."""

from datetime import timedelta
from typing import Any

import pytest

from dovetail.core.disruption.command import Stay
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import Budget, ConsolidationPolicy, Disruption
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from dovetail.state.explain.nodes import explain_nodes
from tests.support import wire
from tests.support.catalog import DEFAULT_TYPES
from tests.support.fleet import a_machine, a_pod, an_owner
from tests.support.world import World

CONSOLIDATABLE = {"Consolidatable": Condition(status=TRUE, reason="Consolidatable", generation=1)}
DRIFTED = {"Drifted": Condition(status=TRUE, reason="NodePoolDrifted", generation=1)}
EVERYTHING = ConsolidationPolicy.WHEN_EMPTY_OR_UNDERUTILIZED


def a_world(
    *,
    after: float | None = 0,
    policy: ConsolidationPolicy = EVERYTHING,
    budgets: tuple[Budget, ...] = (Budget(nodes="100%"),),
    **machine: Any,
) -> World:
    world = World()
    settle = None if after is None else timedelta(seconds=after)
    rules = Disruption(consolidate_after=settle, policy=policy, budgets=budgets)
    made = wire.pool(disruption=rules)
    ready = {"type": "Ready", "status": "True", "reason": "Ready"}
    world.add(NODE_POOLS, {**made, "status": {"conditions": [ready]}})
    a_machine(world, **{"conditions": CONSOLIDATABLE, **machine})
    return world.wait(60)


def told(world: World) -> dict[str, Stay]:
    found = explain_nodes(world.mirror, lambda _: DEFAULT_TYPES, world.now)
    return {one.node: one for one in found}


def test_an_empty_node_goes() -> None:
    assert told(a_world())["node"].code == "goes"


def test_a_node_costs_what_its_offering_does() -> None:
    kind = DEFAULT_TYPES[0]
    world = a_world(
        labels={
            label_keys.INSTANCE_TYPE: kind.name,
            label_keys.ZONE: kind.offerings[0].zone,
            label_keys.CAPACITY_TYPE: kind.offerings[0].capacity_type,
        }
    )

    assert told(world)["node"].price == kind.offerings[0].price > 0


def test_a_drifted_node_goes_and_says_how_it_drifted() -> None:
    found = told(a_world(conditions=DRIFTED))["node"]

    assert (found.code, found.because) == ("goes", "it has drifted (NodePoolDrifted)")


@pytest.mark.parametrize(
    ("policy", "after"), [(ConsolidationPolicy.WHEN_EMPTY, 0), (EVERYTHING, None)]
)
def test_a_setting_of_its_pool_keeps_a_node(
    policy: ConsolidationPolicy, after: float | None
) -> None:
    world = a_world(policy=policy, after=after)
    a_pod(world, owner=an_owner(world, "ReplicaSet"))

    assert told(world)["node"].code == "setting"


def test_a_protected_pod_keeps_its_node_and_is_named() -> None:
    world = a_world()
    a_pod(world, annotations={label_keys.DO_NOT_DISRUPT: "true"})

    found = told(world)["node"]

    assert found.code == "spared"
    assert "default/pod" in found.because


def test_a_budget_that_cannot_be_read_keeps_all_nodes_of_its_pool() -> None:
    world = a_world()
    broken = {"nodes": "1", "schedule": "61 * * * *", "duration": "1h"}
    world.patch(NODE_POOLS, "default", {"spec": {"disruption": {"budgets": [broken]}}})

    found = told(world)["node"]

    assert found.code == "budget"
    assert "'61' is not within 0-59" in found.because


def test_a_budget_that_is_used_up_keeps_a_node() -> None:
    found = told(a_world(budgets=(Budget(nodes="0"),)))["node"]

    assert (found.code, "no budget left for Empty" in found.because) == ("budget", True)


def test_a_node_that_pods_came_to_just_now_is_young() -> None:
    world = a_world(conditions={}, after=3600)
    a_pod(world, owner=an_owner(world, "ReplicaSet"))

    assert told(world)["node"].code == "young"


def test_a_node_that_is_being_given_back_says_so() -> None:
    world = a_world().delete(NODE_CLAIMS, "claim")

    assert told(world)["node"].code == "leaving"


def test_a_node_that_is_not_ours_says_so() -> None:
    world = a_world()
    world.add(NODES, wire.node("stranger", provider_id="aws:///z/i-2", labels={}))

    assert told(world)["stranger"].code == "unmanaged"


def test_the_same_mirror_gives_the_same_answers() -> None:
    world = a_world()
    a_pod(world, owner=an_owner(world, "ReplicaSet"))

    assert told(world) == told(world)
