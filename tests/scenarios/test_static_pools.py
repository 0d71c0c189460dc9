"""A pool with a fixed number of nodes, in a whole cluster."""

from typing import Any

from dovetail.model.settings import Gates
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.cluster import Box
from tests.support.boxes import a_box, a_node_class, a_pool, a_story, wait


def a_static_box(replicas: int, **spec: Any) -> Box:
    pool = a_pool(replicas=replicas, **spec)
    story = a_story(objects=(a_node_class(), pool))
    box = a_box(story, gates=Gates(StaticCapacity=True))
    wait(box, 60)
    return box


def resize(box: Box, replicas: int) -> None:
    box.api.patch(NODE_POOLS, "default", {"spec": {"replicas": replicas}}, PatchType.MERGE)
    wait(box, 120)


def ready_nodes(box: Box) -> int:
    """Nodes of the pool that are ready; the controllers' own home is none of them."""
    return sum(
        one["metadata"]["labels"].get("karpenter.sh/initialized") == "true"
        for one in box.api.list(NODES).items
    )


def test_nodes_come_without_pods_and_stay_although_nobody_uses_them() -> None:
    box = a_static_box(3)
    before = ready_nodes(box)

    wait(box, 3600)

    assert before == 3
    assert ready_nodes(box) == 3
    assert box.api.get(NODE_POOLS, "default")["status"]["nodes"] == 3
    assert box.invariants.violations == []


def test_it_is_scaled_up_and_down_to_nothing() -> None:
    box = a_static_box(1)

    resize(box, 4)
    grown = ready_nodes(box)
    resize(box, 0)

    assert grown == 4
    assert ready_nodes(box) == 0
    assert box.api.list(NODE_CLAIMS).items == []
    assert box.ec2.ledger.machines == 1  # The home of the controllers.


def test_a_node_that_somebody_deletes_is_replaced() -> None:
    box = a_static_box(2)
    (first, *_) = [
        one["metadata"]["name"]
        for one in box.api.list(NODES).items
        if "karpenter.sh/nodepool" in one["metadata"]["labels"]
    ]

    box.api.delete(NODES, first)
    wait(box, 120)

    assert ready_nodes(box) == 2
    assert first not in {one["metadata"]["name"] for one in box.api.list(NODES).items}


def test_controllers_that_die_while_it_grows_buy_nothing_twice() -> None:
    box = a_static_box(0)
    box.api.patch(NODE_POOLS, "default", {"spec": {"replicas": 3}}, PatchType.MERGE)
    wait(box, 0)

    box.restart()
    wait(box, 120)

    assert ready_nodes(box) == 3
    assert box.ec2.ledger.machines == 1 + 3
