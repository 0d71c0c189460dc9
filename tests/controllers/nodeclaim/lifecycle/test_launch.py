"""Launch: LA1–LA10 of the lifecycle checklist."""

import pytest

from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.ports.cloudprovider import (
    CloudError,
    CreateFailed,
    InsufficientCapacity,
    NodeClassNotReady,
)
from dovetail.ports.kube_errors import InternalError
from tests.support import wire
from tests.support.cloud import SHAPE
from tests.support.world import World, condition


def test_a_new_claim_gets_one_machine() -> None:
    world = World().run(lifecycle.registration)

    world.add(NODE_CLAIMS, wire.claim())

    assert world.cloud.bought == ["claim"]
    assert world.claim().provider_id in world.cloud.machines


def test_a_claim_of_somebody_elses_node_class_is_left_alone() -> None:
    world = World().run(lifecycle.registration)

    world.add(NODE_CLAIMS, wire.claim(node_class=wire.SOMEBODY_ELSES))

    assert world.cloud.asked == []
    assert world.claim().finalizers == ()
    assert world.writes == []


def test_a_launched_claim_says_what_was_bought() -> None:
    world = World().run(lifecycle.registration)

    world.add(NODE_CLAIMS, wire.claim())

    claim = world.claim()
    assert condition(claim.conditions, "Launched") == ("True", "Launched")
    assert claim.image_id == "ami-1"
    assert claim.capacity == claim.allocatable == SHAPE
    assert claim.labels[label_keys.INSTANCE_TYPE] == "m5.xlarge"
    (line,) = world.log.said("launched nodeclaim")
    assert line["provider_id"] == claim.provider_id


def test_a_label_that_the_claim_has_already_is_kept() -> None:
    world = World().run(lifecycle.registration)
    world.cloud.labels = FrozenDict({"team": "cloud", "rack": "7"})

    world.add(NODE_CLAIMS, wire.claim(labels={"team": "mine"}))

    assert world.claim().labels["team"] == "mine"
    assert world.claim().labels["rack"] == "7"


@pytest.mark.parametrize(
    ("error", "reason", "told"),
    [
        (
            InsufficientCapacity("m5.large/spot/us-east-1a has none"),
            "insufficient_capacity",
            ["InsufficientCapacityError"],
        ),
        (NodeClassNotReady("default is not ready"), "nodeclass_not_ready", []),
    ],
)
def test_what_cannot_be_had_deletes_the_claim_so_that_others_are_tried(
    error: CloudError, reason: str, told: list[str]
) -> None:
    world = World().run(lifecycle.registration)
    world.cloud.fail("create", error)

    world.add(NODE_CLAIMS, wire.claim())

    assert world.get(NODE_CLAIMS, "claim") is None
    assert world.cloud.machines == {}
    assert world.events.about("claim") == told
    assert world.metrics.total("karpenter_nodeclaims_disrupted_total", reason=reason) == 1


def test_a_cloud_that_says_why_is_quoted_and_asked_again() -> None:
    world = World().run(lifecycle.registration)
    world.cloud.fail("create", CreateFailed("Unauthorized", "not allowed to RunInstances"))

    world.add(NODE_CLAIMS, wire.claim())
    failed = world.claim().conditions["Launched"]
    world.wait(1)

    assert (failed.status, failed.reason) == ("Unknown", "Unauthorized")
    assert failed.message == "not allowed to RunInstances"
    assert condition(world.claim().conditions, "Launched") == ("True", "Launched")


def test_any_other_error_is_shortened_and_tried_again_ever_more_rarely() -> None:
    world = World().run(lifecycle.registration)
    world.cloud.fail("create", *[CloudError("x" * 500)] * 100)

    world.add(NODE_CLAIMS, wire.claim())
    world.wait(62)

    failed = world.claim().conditions["Launched"]
    assert (failed.status, failed.reason) == ("Unknown", "LaunchFailed")
    assert failed.message == "x" * 300 + "…"
    # At 0, 1, 3, 7, 15, 31 seconds; the next at 63.
    assert len(world.cloud.calls("create")) == 6


def test_the_finalizer_is_there_before_anything_is_bought() -> None:
    world = World().run(lifecycle.registration)
    world.faults.fail("patch", NODE_CLAIMS, InternalError("etcd is away"))

    world.add(NODE_CLAIMS, wire.claim())

    assert world.cloud.asked == []
    world.wait(1)
    assert world.claim().finalizers == (label_keys.TERMINATION_FINALIZER,)
    assert world.cloud.bought == ["claim"]


def test_a_status_that_could_not_be_written_does_not_ask_the_cloud_again() -> None:
    world = World().run(lifecycle.registration)
    world.faults.fail("patch status", NODE_CLAIMS, InternalError("etcd is away"))

    world.add(NODE_CLAIMS, wire.claim())
    world.wait(1)

    assert world.claim().provider_id
    assert world.cloud.calls("create") == ["claim"]


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_controllers_killed_after_any_write_buy_no_second_machine(writes: int) -> None:
    world = World().run(lifecycle.registration)
    world.die_after(writes)

    world.add(NODE_CLAIMS, wire.claim())
    world.restart()

    assert world.cloud.bought == ["claim"]
    assert world.claim().provider_id in world.cloud.machines


def test_a_claim_deleted_while_its_status_could_not_be_written_leaves_no_machine() -> None:
    world = World().run(lifecycle.registration)
    world.faults.fail("patch status", NODE_CLAIMS, InternalError("etcd is away"))
    world.add(NODE_CLAIMS, wire.claim())

    world.delete(NODE_CLAIMS, "claim")
    world.wait(10)

    assert world.get(NODE_CLAIMS, "claim") is None
    assert world.cloud.machines == {}


def test_a_second_pass_changes_nothing() -> None:
    world = World().run(lifecycle.registration)
    world.add(NODE_CLAIMS, wire.claim())
    before = world.versions()

    world.runtime.ask("nodeclaim.lifecycle", "claim")
    world.wait(0)

    assert world.versions() == before
