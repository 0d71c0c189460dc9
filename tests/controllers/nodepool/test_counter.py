"""NodePool counter: NP10 of the lifecycle checklist."""

from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.controllers.nodepool import counter
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from dovetail.ports.metrics import NODEPOOLS_USAGE
from tests.support.controllers.cloud_provider import SHAPE
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests

GPU = "nvidia.com/gpu"
ZEROS = {"cpu": 0, "memory": 0, "pods": 0, "ephemeral-storage": 0, "nodes": 0}


def an_environment() -> ControllerEnvironment:
    env = ControllerEnvironment().run(lifecycle.controller, counter.controller)
    env.add(NODE_POOLS, manifests.pool())
    return env


def test_nodepool_without_nodes_has_zero_resources() -> None:
    env = an_environment()

    assert env.pool().resources == ZEROS
    assert env.pool().node_count == 0


def test_launched_nodeclaim_counts_with_its_own_capacity_and_its_node_with_the_reported_one() -> None:
    env = an_environment()

    env.add(NODE_CLAIMS, manifests.claim())
    env.wait(1)
    launched = env.pool().resources
    size = {"cpu": "3900m", "memory": "15Gi", "pods": "58"}
    env.add(NODES, manifests.node(provider_id=env.claim().provider_id, size=size))
    env.wait(1)

    assert launched == {**ZEROS, **SHAPE, "nodes": 1}
    assert env.pool().resources == {**ZEROS, "cpu": 3900, "memory": 15 * 2**30, "pods": 58, "nodes": 1}
    assert env.pool().node_count == 1


def test_deleting_nodes_do_not_count() -> None:
    env = an_environment()
    for name in ("one", "two"):
        env.add(NODE_CLAIMS, manifests.claim(name))
        env.add(NODES, manifests.node(f"{name}-node", provider_id=env.claim(name).provider_id))
    env.wait(1)
    before = env.pool().node_count

    env.delete(NODE_CLAIMS, "one")
    env.wait(1)

    assert before == 2
    assert env.pool().node_count == 1
    assert env.claim("one").deleting


def test_each_nodepool_is_counted_including_static_ones() -> None:
    env = an_environment()
    env.add(NODE_POOLS, manifests.pool("static", replicas=2))
    for name in ("one", "two"):
        env.add(NODE_CLAIMS, manifests.claim(name, pool="static"))
    env.add(NODE_CLAIMS, manifests.claim("three"))

    env.wait(1)

    assert env.pool("static").node_count == 2
    assert env.pool("default").node_count == 1


def test_many_new_nodes_are_counted_once_per_second() -> None:
    env = an_environment().wait(10)
    before = len(env.writes)

    for number in range(50):
        env.api.create(NODE_CLAIMS, manifests.claim(f"claim-{number}"))
    env.wait(2)

    assert env.pool().node_count == 50
    written = [write for write in env.writes[before:] if write[1] == "NodePool/default"]
    assert len(written) <= 2


def test_resources_of_the_last_gpu_node_are_gone_from_status_and_zero_in_the_metric() -> None:
    env = an_environment()
    env.cloud.shape = SHAPE + {GPU: 1}
    env.add(NODE_CLAIMS, manifests.claim())
    env.add(NODES, manifests.node(provider_id=env.claim().provider_id, size=env.cloud.shape.to_quantities()))
    env.wait(1)
    before = env.pool().resources

    env.delete(NODE_CLAIMS, "claim")
    env.wait(1)

    assert before == {**ZEROS, **SHAPE, GPU: 1, "nodes": 1}
    assert env.pool().resources == ZEROS
    assert env.metrics.values[NODEPOOLS_USAGE.name]
    assert env.metrics.total(NODEPOOLS_USAGE.name) == 0
