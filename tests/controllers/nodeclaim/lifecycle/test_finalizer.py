"""The end of a claim: NF1–NF13 of the lifecycle checklist.

NF4 differs: whether the instance has gone is asked after 1, 2, then every 5 s.
"""

from datetime import timedelta

import pytest

from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.cloudprovider import CloudError
from tests.support import wire
from tests.support.world import World, condition

FINALIZER = label_keys.TERMINATION_FINALIZER


def a_ready_claim(**claim: object) -> World:
    world = World().run(lifecycle.registration)
    world.add(NODE_CLAIMS, wire.claim(**claim))
    world.add(NODES, wire.node(provider_id=world.claim().provider_id))
    return world


def drained(world: World, name: str = "node") -> World:
    """What node termination does at its end."""
    world.patch(NODES, name, {"metadata": {"finalizers": None}})
    return world


def test_node_machine_and_claim_go_in_this_order() -> None:
    world = a_ready_claim()
    provider_id = world.claim().provider_id

    world.delete(NODE_CLAIMS, "claim")
    assert world.node().deleting
    assert world.cloud.calls("delete") == []
    drained(world)
    assert world.cloud.calls("delete") == [provider_id]
    assert world.claim().deleting
    world.wait(1)

    assert world.get(NODE_CLAIMS, "claim") is None
    assert world.cloud.machines == {}
    assert len(world.log.said("deleted nodeclaim")) == 1
    assert world.metrics.total("karpenter_nodeclaims_terminated_total", nodepool="default") == 1


def test_a_claim_of_somebody_elses_is_left_alone() -> None:
    world = World().run(lifecycle.registration)
    world.add(NODE_CLAIMS, wire.claim(node_class=wire.SOMEBODY_ELSES, finalizers=[FINALIZER]))

    world.delete(NODE_CLAIMS, "claim")

    assert world.claim().finalizers == (FINALIZER,)


def test_a_claim_whose_machine_terminates_stays_ready() -> None:
    world = a_ready_claim()
    world.cloud.terminating_takes = timedelta(minutes=1)

    drained(world.delete(NODE_CLAIMS, "claim"))

    assert condition(world.claim().conditions, "InstanceTerminating")[0] == "True"
    assert condition(world.claim().conditions, "Ready") == ("True", "Ready")


def test_a_cloud_that_refuses_is_asked_again_and_the_claim_stays() -> None:
    world = a_ready_claim()
    world.cloud.fail("delete", CloudError("throttled"))

    drained(world.delete(NODE_CLAIMS, "claim"))

    assert world.claim().finalizers == (FINALIZER,)
    world.wait(2)
    assert world.get(NODE_CLAIMS, "claim") is None


def test_the_claim_stays_until_the_machine_is_gone_and_asks_ever_more_rarely() -> None:
    world = a_ready_claim()
    world.cloud.terminating_takes = timedelta(seconds=12)

    drained(world.delete(NODE_CLAIMS, "claim"))
    # Asked at 0, 1, 3, 8 and 13 seconds.
    world.wait(12)
    before = world.get(NODE_CLAIMS, "claim")
    world.wait(1)

    assert before is not None
    assert world.get(NODE_CLAIMS, "claim") is None
    assert len(world.cloud.calls("delete")) == 5


def test_all_nodes_of_the_machine_go_and_the_claim_waits_for_the_last() -> None:
    world = a_ready_claim()
    provider_id = world.claim().provider_id
    world.add(NODES, wire.node("twin", provider_id=provider_id, finalizers=[FINALIZER]))

    world.delete(NODE_CLAIMS, "claim")
    assert world.node("node").deleting
    assert world.node("twin").deleting
    drained(world, "node")
    assert world.cloud.calls("delete") == []
    drained(world, "twin").wait(1)

    assert world.get(NODE_CLAIMS, "claim") is None


def test_a_claim_that_never_launched_goes_without_asking_the_cloud() -> None:
    world = World().run(lifecycle.registration)
    world.cloud.fail("create", *[CloudError("no")] * 1000)
    world.add(NODE_CLAIMS, wire.claim())
    world.add(NODES, wire.node("nobodys", provider_id=""))

    world.delete(NODE_CLAIMS, "claim")

    assert world.get(NODE_CLAIMS, "claim") is None
    assert world.cloud.calls("delete") == []
    assert not world.node("nobodys").deleting


def test_a_node_that_never_registered_is_left_to_the_cloud() -> None:
    world = World().run()
    world.add(NODE_CLAIMS, wire.claim())
    for name in ("one", "two"):
        world.add(NODES, wire.node(name, provider_id="aws:///us-east-1a/i-00000000000000000"))
    world.crash().run(lifecycle.registration)
    assert condition(world.claim().conditions, "Registered")[0] == "False"

    world.delete(NODE_CLAIMS, "claim").wait(1)

    assert world.get(NODE_CLAIMS, "claim") is None
    assert world.cloud.machines == {}
    assert not world.node("one").deleting


def test_without_a_grace_period_there_is_no_deadline() -> None:
    world = a_ready_claim()

    world.delete(NODE_CLAIMS, "claim")

    assert label_keys.TERMINATION_TIMESTAMP not in world.claim().annotations


def test_the_deadline_is_the_deletion_plus_the_grace_period() -> None:
    world = a_ready_claim(termination_grace_period=timedelta(minutes=5))
    world.wait(30)

    world.delete(NODE_CLAIMS, "claim")

    deadline = world.claim().annotations[label_keys.TERMINATION_TIMESTAMP]
    assert deadline == "2026-01-01T09:05:30Z"
    assert world.events.about("claim") == ["TerminationGracePeriodExpiring"]


def test_a_deadline_that_is_there_already_is_kept() -> None:
    early = FrozenDict({label_keys.TERMINATION_TIMESTAMP: "2026-01-01T09:00:01Z"})
    world = a_ready_claim(termination_grace_period=timedelta(minutes=5), annotations=early)

    world.delete(NODE_CLAIMS, "claim")

    deadline = world.claim().annotations[label_keys.TERMINATION_TIMESTAMP]
    assert deadline == "2026-01-01T09:00:01Z"


def test_a_claim_whose_amounts_are_written_oddly_still_goes() -> None:
    world = World().run(lifecycle.registration)
    odd = wire.claim()
    odd["spec"]["resources"] = {"requests": {"cpu": "0.5", "memory": "1048576Ki"}}
    world.add(NODE_CLAIMS, odd)

    world.delete(NODE_CLAIMS, "claim").wait(1)

    assert world.get(NODE_CLAIMS, "claim") is None


@pytest.mark.parametrize("writes", range(1, 5))
def test_controllers_killed_after_any_write_still_leave_nothing_behind(writes: int) -> None:
    world = a_ready_claim(termination_grace_period=timedelta(minutes=5))
    world.die_after(writes)

    world.delete(NODE_CLAIMS, "claim")
    for _ in range(2):
        world.restart()
        if world.get(NODES, "node") is not None:
            drained(world)
        world.wait(1)

    assert world.get(NODE_CLAIMS, "claim") is None
    assert world.cloud.machines == {}


def test_a_second_pass_changes_nothing() -> None:
    world = a_ready_claim(termination_grace_period=timedelta(minutes=5))
    world.delete(NODE_CLAIMS, "claim")
    before = world.versions()

    world.runtime.ask("nodeclaim.lifecycle", "claim")
    world.wait(60)

    assert world.versions() == before
