"""Pools with a fixed number of nodes: SP1–SP9, SX1–SX9 and SC1 of the lifecycle checklist."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from dovetail.controllers.nodepool.static import Filling, Trimming
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodeTemplate
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import Effect, Taint
from dovetail.model.settings import Gates
from dovetail.ports.api_resources import DAEMON_SETS, NODE_CLAIMS, NODE_POOLS, NODES, PODS
from dovetail.ports.kube_errors import InternalError
from tests.support import wire
from tests.support.world import World

MINUTE = 60
ON = Gates(StaticCapacity=True)
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
NOT_READY = {"conditions": [{"type": "Ready", "status": "False"}]}


def a_world() -> World:
    return World().run(partial(Filling, gates=ON), partial(Trimming, gates=ON))


def add_pool(world: World, replicas: int | None, **fields: Any) -> World:
    world.add(NODE_POOLS, {**wire.pool(replicas=replicas, **fields), "status": READY})
    return world


def resize(world: World, replicas: int) -> World:
    world.patch(NODE_POOLS, "default", {"spec": {"replicas": replicas}})
    return world


def names(world: World) -> list[str]:
    return sorted(one.name for one in world.mirror.claims() if not one.deleting)


def add_tenant(world: World, name: str, *pods: dict[str, Any]) -> None:
    """A claim whose machine runs some pods."""
    machine = f"aws:///us-east-1a/i-{name}"
    world.add(NODE_CLAIMS, wire.claim(name, provider_id=machine, node_name=f"node-{name}"))
    world.add(NODES, wire.node(f"node-{name}", provider_id=machine))
    for number, pod in enumerate(pods):
        pod["metadata"]["name"] = f"{name}-{number}"
        world.add(PODS, {**pod, "spec": {**pod["spec"], "nodeName": f"node-{name}"}})


def a_daemon(world: World, **annotations: str) -> dict[str, Any]:
    """A pod of a DaemonSet that is there: the API server takes orphans away."""
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": wire.pod()["spec"]}
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    made = world.add(
        DAEMON_SETS, {"metadata": {"name": "agent", "namespace": "default"}, "spec": spec}
    )
    uid = made["metadata"]["uid"]
    return a_pod(wire.owner("DaemonSet", "agent", uid=uid, controller=True), **annotations)


def a_pod(owner: dict[str, Any] | None = None, **annotations: str) -> dict[str, Any]:
    made = wire.pod(owner=owner)
    made["metadata"]["annotations"] = annotations
    return made


def that_stays() -> dict[str, Any]:
    return a_pod(**{label_keys.DO_NOT_DISRUPT: "true"})


def test_a_new_pool_gets_as_many_nodes_as_it_says() -> None:
    world = add_pool(a_world(), 3)

    assert len(names(world)) == 3
    assert world.metrics.total("karpenter_nodeclaims_created_total", reason="provisioned") == 3


def test_a_pool_that_has_enough_gets_no_more() -> None:
    world = add_pool(a_world(), 3)
    before = world.versions()

    world.wait(10 * MINUTE)

    assert world.versions() == before


def test_a_larger_number_is_filled_up_and_a_smaller_one_trimmed() -> None:
    world = add_pool(a_world(), 2)

    assert len(names(resize(world, 5))) == 5
    assert len(names(resize(world, 1))) == 1
    assert names(resize(world, 0)) == []


def test_a_claim_that_goes_is_replaced_at_once_and_does_not_count_while_it_goes() -> None:
    world = add_pool(a_world(), 2)
    first = names(world)[0]
    world.patch(NODE_CLAIMS, first, {"metadata": {"finalizers": ["test/held"]}})

    world.delete(NODE_CLAIMS, first)

    assert len(names(world)) == 2
    assert first not in names(world)


def test_a_claim_that_is_to_be_replaced_is_not_replaced_twice() -> None:
    world = add_pool(a_world(), 2)
    leaving = {"conditions": [{"type": "DisruptionReason", "status": "True", "reason": "Drifted"}]}
    world.patch(NODE_CLAIMS, names(world)[0], {"status": leaving}, subresource="status")

    world.wait(2 * MINUTE)

    assert len(names(world)) == 2


@pytest.mark.parametrize(("limit", "there"), [("2", 2), ("5", 3), ("0", 0)])
def test_no_more_nodes_are_asked_for_than_the_limit_allows(limit: str, there: int) -> None:
    world = add_pool(a_world(), 3, limits=Resources.parse({"nodes": limit}))

    world.wait(5 * MINUTE)

    assert len(names(world)) == there


def test_claims_that_are_going_count_against_the_limit() -> None:
    world = add_pool(a_world(), 2, limits=Resources.parse({"nodes": 2}))
    first = names(world)[0]
    world.patch(NODE_CLAIMS, first, {"metadata": {"finalizers": ["test/held"]}})
    world.delete(NODE_CLAIMS, first).wait(5 * MINUTE)

    while_going = len(names(world))
    world.patch(NODE_CLAIMS, first, {"metadata": {"finalizers": None}})
    world.wait(MINUTE)

    assert while_going == 1
    assert len(names(world)) == 2


def test_a_claim_that_could_not_be_written_is_asked_for_again() -> None:
    world = a_world()
    world.faults.fail("create", NODE_CLAIMS, InternalError("the API server is busy"))

    add_pool(world, 3, limits=Resources.parse({"nodes": 3})).wait(MINUTE)

    assert len(names(world)) == 3


def test_a_pool_that_is_not_ready_waits_until_it_is() -> None:
    world = a_world()
    world.add(NODE_POOLS, {**wire.pool(replicas=2), "status": NOT_READY})
    before = names(world)

    world.patch(NODE_POOLS, "default", {"status": READY}, subresource="status")

    assert before == []
    assert len(names(world)) == 2


def test_a_pool_without_a_number_is_none_of_its_business() -> None:
    world = add_pool(a_world(), None)
    add_tenant(world, "a")

    world.wait(5 * MINUTE)

    assert names(world) == ["a"]


def test_a_pool_of_somebody_elses_is_left_alone() -> None:
    template = NodeTemplate(node_class=wire.SOMEBODY_ELSES)
    world = add_pool(a_world(), 3, template=template)

    assert names(world) == []


def test_what_the_template_says_is_on_every_claim() -> None:
    taint = Taint("team", Effect.NO_SCHEDULE, "a")
    zone = RequirementSpec(label_keys.ZONE, Operator.IN, ("us-east-1a",))
    template = NodeTemplate(
        labels=FrozenDict({"team": "a"}),
        annotations=FrozenDict({"note": "x"}),
        taints=(taint,),
        startup_taints=(Taint("starting", Effect.NO_EXECUTE),),
        requirements=(zone,),
        expire_after=timedelta(hours=5),
        termination_grace_period=timedelta(minutes=7),
    )

    world = add_pool(a_world(), 1, template=template)

    claim = world.claim(names(world)[0])
    assert claim.labels["team"] == "a"
    assert claim.labels[label_keys.NODEPOOL] == "default"
    assert claim.annotations["note"] == "x"
    assert claim.taints == (taint,)
    assert claim.startup_taints == template.startup_taints
    assert claim.requirements == (zone,)
    assert claim.expire_after == timedelta(hours=5)
    assert claim.termination_grace_period == timedelta(minutes=7)


def test_what_nobody_has_bought_yet_goes_first() -> None:
    world = a_world()
    add_tenant(world, "a")
    world.add(NODE_CLAIMS, wire.claim("unbought"))
    add_tenant(world, "z")

    add_pool(world, 2)

    assert names(world) == ["a", "z"]


def test_then_go_nodes_that_only_daemons_use_then_those_whose_pods_cost_least() -> None:
    world = a_world()
    add_tenant(world, "busy", a_pod(), a_pod())
    add_tenant(world, "daemons", a_daemon(world))
    add_tenant(world, "quiet", a_pod())
    add_pool(world, 3)

    first = names(resize(world, 2))
    second = names(resize(world, 1))

    assert first == ["busy", "quiet"]
    assert second == ["busy"]


def test_who_has_a_pod_that_must_not_be_disrupted_goes_last() -> None:
    world = a_world()
    add_tenant(world, "held", that_stays())
    add_tenant(world, "busy", a_pod(), a_pod(), a_pod())
    add_tenant(world, "held-daemon", a_daemon(world, **{label_keys.DO_NOT_DISRUPT: "true"}))

    add_pool(world, 2)

    assert names(world) == ["held", "held-daemon"]


def test_a_deletion_that_fails_is_tried_again() -> None:
    world = add_pool(a_world(), 2)
    world.faults.fail("delete", NODE_CLAIMS, InternalError("the API server is busy"))

    resize(world, 0).wait(MINUTE)

    assert names(world) == []


def test_killed_after_any_write_it_ends_with_the_right_number() -> None:
    for writes in (1, 2, 3):
        world = a_world()
        world.die_after(writes)
        add_pool(world, 3)

        world.restart().wait(MINUTE)

        assert len(names(world)) == 3
