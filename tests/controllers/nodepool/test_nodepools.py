"""NodePools: NP1–NP10 of the lifecycle checklist."""

from typing import Any

import pytest

from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.controllers.nodepool import counter, readiness, registration_health, validation
from dovetail.controllers.nodepool import hash as stamping
from dovetail.core.nodepool.hash import HASH_VERSION
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodeTemplate
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS, NODES
from tests.support import wire
from tests.support.cloud import SHAPE
from tests.support.world import World, condition

ALL = (
    stamping.registration,
    readiness.registration,
    validation.registration,
    counter.registration,
    registration_health.registration,
)
NOBODYS = NodeTemplate(node_class=wire.SOMEBODY_ELSES)


def a_pool(**template: Any) -> dict[str, Any]:
    return wire.pool(template=NodeTemplate(**template))


# The hash.


def stamps(one: Any) -> tuple[str | None, str | None]:
    return (
        one.annotations.get(label_keys.NODEPOOL_HASH),
        one.annotations.get(label_keys.NODEPOOL_HASH_VERSION),
    )


def test_a_pool_is_stamped_anew_when_its_nodes_would_differ() -> None:
    world = World().run(stamping.registration)
    world.add(NODE_POOLS, wire.pool())
    first = stamps(world.pool())

    world.patch(
        NODE_POOLS,
        "default",
        {"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}},
    )

    assert first[0] is not None
    assert first[1] == stamps(world.pool())[1] == HASH_VERSION
    assert stamps(world.pool())[0] != first[0]


def test_a_pool_is_not_stamped_anew_for_what_nodes_do_not_have() -> None:
    world = World().run(stamping.registration)
    world.add(NODE_POOLS, wire.pool())
    first = stamps(world.pool())

    zone = {"key": label_keys.ZONE, "operator": "In", "values": ["a"]}
    world.patch(
        NODE_POOLS,
        "default",
        {
            "spec": {
                "limits": {"cpu": "10"},
                "weight": 5,
                "disruption": {"consolidateAfter": "1h"},
                "template": {"spec": {"requirements": [zone]}},
            }
        },
    )

    assert world.pool().weight == 5
    assert stamps(world.pool()) == first


def test_claims_are_stamped_anew_when_hashes_come_to_mean_something_else() -> None:
    world = World()
    old = FrozenDict({label_keys.NODEPOOL_HASH: "1", label_keys.NODEPOOL_HASH_VERSION: "v3"})
    pool = wire.pool()
    pool["metadata"]["annotations"] = dict(old)
    world.add(NODE_POOLS, pool)
    world.add(NODE_CLAIMS, wire.claim("fresh", annotations=old))
    world.add(NODE_CLAIMS, wire.claim("drifted", annotations=old))
    drifted = {"conditions": [{"type": "Drifted", "status": "True", "reason": "Drifted"}]}
    world.patch(NODE_CLAIMS, "drifted", {"status": drifted}, subresource="status")

    world.run(stamping.registration)

    assert stamps(world.claim("fresh")) == stamps(world.pool())
    assert stamps(world.claim("drifted")) == ("1", HASH_VERSION)


def test_claims_keep_their_stamp_while_hashes_mean_the_same() -> None:
    world = World().run(stamping.registration)
    world.add(NODE_POOLS, wire.pool())
    known = {label_keys.NODEPOOL_HASH: "1", label_keys.NODEPOOL_HASH_VERSION: HASH_VERSION}
    world.add(NODE_CLAIMS, wire.claim(annotations=FrozenDict(known)))

    world.patch(
        NODE_POOLS,
        "default",
        {"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}},
    )

    assert stamps(world.claim()) == ("1", HASH_VERSION)


def test_claims_are_all_stamped_although_controllers_die_in_between() -> None:
    world = World()
    world.add(NODE_POOLS, wire.pool())
    for name in ("one", "two", "three"):
        world.add(NODE_CLAIMS, wire.claim(name))
    world.die_after(2)
    world.run(stamping.registration)

    world.restart()

    for name in ("one", "two", "three"):
        assert stamps(world.claim(name)) == stamps(world.pool())


# Readiness.


def test_a_pool_without_its_node_class_is_not_ready() -> None:
    world = World().run(readiness.registration)

    world.add(NODE_POOLS, wire.pool())

    assert condition(world.pool().conditions, "NodeClassReady") == ("False", "NodeClassNotFound")
    assert not world.pool().ready


def test_a_pool_is_ready_with_its_node_class_and_sound_wishes() -> None:
    world = World().run(readiness.registration, validation.registration)
    world.add(NODE_POOLS, wire.pool())

    world.add(EC2_NODE_CLASSES, wire.node_class())

    assert condition(world.pool().conditions, "NodeClassReady") == ("True", "NodeClassReady")
    assert condition(world.pool().conditions, "Ready") == ("True", "Ready")
    assert world.pool().ready


def test_a_pool_says_why_its_node_class_is_not_ready() -> None:
    world = World().run(readiness.registration)
    world.add(NODE_POOLS, wire.pool())
    not_ready = wire.node_class(ready=False)
    not_ready["status"]["conditions"][0] |= {"reason": "UnhealthyDependents", "message": "no AMI"}

    world.add(EC2_NODE_CLASSES, not_ready)

    found = world.pool().conditions["NodeClassReady"]
    assert (found.status, found.reason) == ("False", "UnhealthyDependents")
    assert found.message == "no AMI"


def test_a_node_class_that_nobody_has_looked_at_is_not_ready() -> None:
    world = World().run(readiness.registration)
    world.add(NODE_POOLS, wire.pool())

    world.add(EC2_NODE_CLASSES, wire.node_class(ready=None))

    found = condition(world.pool().conditions, "NodeClassReady")
    assert found == ("False", "NodeClassReadinessUnknown")


def test_a_node_class_that_is_going_is_not_ready() -> None:
    world = World().run(readiness.registration)
    world.add(NODE_POOLS, wire.pool())
    held = wire.node_class()
    held["metadata"]["finalizers"] = ["test/held"]
    world.add(EC2_NODE_CLASSES, held)

    world.delete(EC2_NODE_CLASSES, "default")

    found = condition(world.pool().conditions, "NodeClassReady")
    assert found == ("False", "NodeClassTerminating")


# Validation.


def valid(*requirements: RequirementSpec, **template: Any) -> tuple[str, str]:
    world = World().run(validation.registration)
    world.add(NODE_POOLS, a_pool(requirements=requirements, **template))
    return condition(world.pool().conditions, "ValidationSucceeded")


def capacity_types(*values: str) -> RequirementSpec:
    return RequirementSpec(label_keys.CAPACITY_TYPE, Operator.IN, values)


@pytest.mark.parametrize("values", [("spot",), ("on-demand", "spot"), ("spot", "cheap")])
def test_one_capacity_type_that_there_is_will_do(values: tuple[str, ...]) -> None:
    assert valid(capacity_types(*values)) == ("True", "ValidationSucceeded")


def test_a_pool_that_passed_admission_and_makes_no_sense_is_invalid() -> None:
    two_of = RequirementSpec(label_keys.CAPACITY_TYPE, Operator.IN, ("spot", "cheap"), 2)

    assert valid(two_of) == ("False", "NodePoolValidationFailed")


# What is counted.

ZEROS = {"cpu": 0, "memory": 0, "pods": 0, "ephemeral-storage": 0, "nodes": 0}


def counted() -> World:
    world = World().run(lifecycle.registration, counter.registration)
    world.add(NODE_POOLS, wire.pool())
    return world


def test_a_pool_without_nodes_has_nothing_of_anything() -> None:
    world = counted()

    assert world.pool().used == ZEROS
    assert world.pool().node_count == 0


def test_a_launched_claim_counts_as_what_was_bought_and_its_node_as_what_it_is() -> None:
    world = counted()

    world.add(NODE_CLAIMS, wire.claim())
    world.wait(1)
    bought = world.pool().used
    size = {"cpu": "3900m", "memory": "15Gi", "pods": "58"}
    world.add(NODES, wire.node(provider_id=world.claim().provider_id, size=size))
    world.wait(1)

    assert bought == {**ZEROS, **SHAPE, "nodes": 1}
    assert world.pool().used == {
        **ZEROS,
        "cpu": 3900,
        "memory": 15 * 2**30,
        "pods": 58,
        "nodes": 1,
    }
    assert world.pool().node_count == 1


def test_what_goes_no_longer_counts() -> None:
    world = counted()
    for name in ("one", "two"):
        world.add(NODE_CLAIMS, wire.claim(name))
        world.add(NODES, wire.node(f"{name}-node", provider_id=world.claim(name).provider_id))
    world.wait(1)
    before = world.pool().node_count

    world.delete(NODE_CLAIMS, "one")
    world.wait(1)

    assert before == 2
    assert world.pool().node_count == 1
    assert world.claim("one").deleting


def test_each_pool_has_its_own_and_static_pools_are_counted_too() -> None:
    world = counted()
    world.add(NODE_POOLS, wire.pool("static", replicas=2))
    for name in ("one", "two"):
        world.add(NODE_CLAIMS, wire.claim(name, pool="static"))
    world.add(NODE_CLAIMS, wire.claim("three"))

    world.wait(1)

    assert world.pool("static").node_count == 2
    assert world.pool("default").node_count == 1


def test_many_nodes_at_once_are_counted_once_a_second() -> None:
    world = counted().wait(10)
    before = len(world.writes)

    for number in range(50):
        world.api.create(NODE_CLAIMS, wire.claim(f"claim-{number}"))
    world.wait(2)

    assert world.pool().node_count == 50
    written = [one for one in world.writes[before:] if one[1] == "NodePool/default"]
    assert len(written) <= 2


# Registration health.


def test_a_new_pool_does_not_know_how_its_launches_go() -> None:
    world = World().run(registration_health.registration)
    world.add(EC2_NODE_CLASSES, wire.node_class())

    world.add(NODE_POOLS, wire.pool())

    found = condition(world.pool().conditions, "NodeRegistrationHealthy")
    assert found == ("Unknown", "AwaitingReconciliation")


def test_without_a_node_class_there_is_nothing_to_say() -> None:
    world = World().run(registration_health.registration)

    world.add(NODE_POOLS, wire.pool())

    assert world.writes == []


def with_health(status: str) -> World:
    world = World().run(registration_health.registration)
    world.add(EC2_NODE_CLASSES, wire.node_class())
    world.add(NODE_POOLS, wire.pool())
    known = [
        {**one, "status": status} if one["type"] == "NodeRegistrationHealthy" else one
        for one in world.get(NODE_POOLS, "default")["status"]["conditions"]
    ]
    world.patch(NODE_POOLS, "default", {"status": {"conditions": known}}, subresource="status")
    world.outcomes.add(world.pool(), False)
    return world


@pytest.mark.parametrize("status", ["True", "False"])
def test_what_is_known_stays_while_nothing_changes(status: str) -> None:
    world = with_health(status)

    world.restart()

    assert condition(world.pool().conditions, "NodeRegistrationHealthy")[0] == status


def test_a_changed_node_class_makes_past_launches_say_nothing() -> None:
    world = with_health("True")

    world.patch(EC2_NODE_CLASSES, "default", {"spec": {"role": "others"}})

    assert condition(world.pool().conditions, "NodeRegistrationHealthy")[0] == "Unknown"
    assert world.pool().node_class_generation == 2
    assert world.outcomes.of(world.pool()) == ()


def test_a_changed_pool_makes_past_launches_say_nothing() -> None:
    world = with_health("False")

    world.patch(NODE_POOLS, "default", {"spec": {"weight": 7}})

    assert condition(world.pool().conditions, "NodeRegistrationHealthy")[0] == "Unknown"
    assert world.outcomes.of(world.pool()) == ()


# All of them.


def test_pools_of_somebody_elses_are_left_alone() -> None:
    world = World().run(*ALL)

    world.add(NODE_POOLS, wire.pool(template=NOBODYS))
    world.wait(60)

    assert world.writes == []


def test_a_second_pass_changes_nothing() -> None:
    world = World().run(*ALL)
    world.add(EC2_NODE_CLASSES, wire.node_class())
    world.add(NODE_POOLS, wire.pool())
    world.wait(5)
    before = world.versions()

    for name in ("hash", "readiness", "validation", "counter", "registrationhealth"):
        world.runtime.ask(f"nodepool.{name}", "default")
    world.restart().wait(3600)

    assert world.versions() == before
