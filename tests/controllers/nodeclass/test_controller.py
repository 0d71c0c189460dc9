"""Node classes: 37, 47, 55–57 and 62 of the AWS checklist, as far as the cloud is behind a port."""

from functools import partial
from typing import Any

import pytest

from dovetail.controllers.nodeclass import controller as nodeclass
from dovetail.model.frozen import FrozenDict
from dovetail.model.settings import SchedulingSettings
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS
from dovetail.ports.cloudprovider import ClassStatus, CloudError
from tests.support import wire
from tests.support.world import World

FOUND: dict[str, Any] = {
    "subnets": [{"id": "subnet-1", "zone": "us-east-1a"}],
    "securityGroups": [{"id": "sg-1", "name": "nodes"}],
    "amis": [{"id": "ami-1", "name": "al2023"}],
    "instanceProfile": "nodes",
}
EVENT = "WaitingOnNodeClaimTermination"


def a_world(**problems: tuple[str, str]) -> World:
    world = World()
    world.cloud.resolved = ClassStatus(status=FOUND, problems=FrozenDict(problems))
    world.run(nodeclass.registration)
    world.add(EC2_NODE_CLASSES, wire.node_class(ready=None))
    return world


def conditions(world: World) -> dict[str, tuple[str, str]]:
    listed = world.get(EC2_NODE_CLASSES, "default")["status"]["conditions"]
    return {one["type"]: (one["status"], one["reason"]) for one in listed}


def test_a_class_for_which_all_is_found_is_ready() -> None:
    world = a_world()

    status = world.get(EC2_NODE_CLASSES, "default")["status"]
    assert {name: one for name, one in status.items() if name != "conditions"} == FOUND
    assert {status for status, _ in conditions(world).values()} == {"True"}
    assert list(conditions(world)) == sorted(conditions(world), key=lambda one: one == "Ready")
    assert set(conditions(world)) == {
        "SubnetsReady",
        "SecurityGroupsReady",
        "AMIsReady",
        "InstanceProfileReady",
        "PlacementGroupReady",
        "CapacityReservationsReady",
        "ValidationSucceeded",
        "Ready",
    }


def test_what_is_not_found_is_named_and_taken_out_of_the_status() -> None:
    world = a_world()
    left = {name: one for name, one in FOUND.items() if name != "subnets"}
    missing = FrozenDict({"SubnetsReady": ("SubnetsNotFound", "nothing matches team=a")})
    world.cloud.resolved = ClassStatus(status=left, problems=missing)

    world.wait(60)

    assert "subnets" not in world.get(EC2_NODE_CLASSES, "default")["status"]
    assert conditions(world)["SubnetsReady"] == ("False", "SubnetsNotFound")
    assert conditions(world)["ValidationSucceeded"] == ("False", "DependenciesNotReady")
    assert conditions(world)["Ready"] == ("False", "UnhealthyDependents")
    found = world.mirror.node_class("default")
    assert found is not None
    assert not found.ready


def test_a_class_that_is_found_and_does_not_work_says_why() -> None:
    world = a_world(ValidationSucceeded=("CreateFleetAuthCheckFailed", "not allowed"))

    assert conditions(world)["ValidationSucceeded"] == ("False", "CreateFleetAuthCheckFailed")
    assert conditions(world)["Ready"] == ("False", "UnhealthyDependents")


def test_a_changed_class_is_looked_up_at_once_and_any_class_every_minute() -> None:
    world = a_world()
    assert len(world.cloud.calls("resolve")) == 1

    world.patch(EC2_NODE_CLASSES, "default", {"spec": {"role": "others"}})
    assert len(world.cloud.calls("resolve")) == 2
    world.wait(60)

    assert len(world.cloud.calls("resolve")) == 3


def test_a_cloud_that_does_not_answer_leaves_the_status_as_it_is() -> None:
    world = a_world()
    world.cloud.fail("resolve", *[CloudError("throttled")] * 3)

    world.wait(62)

    assert conditions(world)["Ready"] == ("True", "Ready")
    assert len(world.log.said("reconciler error")) == 3


def test_a_class_stays_until_the_last_claim_made_from_it_has_gone() -> None:
    world = a_world()
    world.add(NODE_CLAIMS, wire.claim())
    world.add(NODE_CLAIMS, wire.claim("others", node_class=wire.SOMEBODY_ELSES))

    world.delete(EC2_NODE_CLASSES, "default")
    assert world.get(EC2_NODE_CLASSES, "default") is not None
    assert world.events.about("default") == [EVENT]
    world.delete(NODE_CLAIMS, "claim")

    assert world.get(EC2_NODE_CLASSES, "default") is None


def test_what_was_made_for_a_class_is_taken_away_after_its_last_claim() -> None:
    world = a_world()
    world.add(NODE_CLAIMS, wire.claim())

    world.delete(EC2_NODE_CLASSES, "default")
    assert world.cloud.calls("forget") == []
    world.delete(NODE_CLAIMS, "claim")

    assert len(world.cloud.calls("forget")) == 1


def test_a_class_stays_while_what_was_made_for_it_cannot_be_taken_away() -> None:
    world = a_world()
    world.cloud.fail("forget", CloudError("DeleteLaunchTemplate: UnauthorizedOperation"))

    world.delete(EC2_NODE_CLASSES, "default")
    assert world.get(EC2_NODE_CLASSES, "default") is not None
    world.wait(60)

    assert world.get(EC2_NODE_CLASSES, "default") is None


OUTAGE = FrozenDict({"SubnetsReady": ("SubnetsResolutionFailed", "DescribeSubnets: Unreachable")})


def test_what_cannot_be_asked_now_leaves_what_was_known() -> None:
    world = a_world()
    left = {name: one for name, one in FOUND.items() if name != "subnets"}
    world.cloud.resolved = ClassStatus(status=left, unsure=OUTAGE)

    world.wait(180)

    assert world.get(EC2_NODE_CLASSES, "default")["status"]["subnets"] == FOUND["subnets"]
    assert conditions(world)["Ready"] == ("True", "Ready")


def test_a_class_that_could_never_be_looked_up_is_of_unknown_use() -> None:
    world = World()
    world.cloud.resolved = ClassStatus(status={}, unsure=OUTAGE)
    world.run(nodeclass.registration)

    world.add(EC2_NODE_CLASSES, wire.node_class(ready=None))

    assert conditions(world)["SubnetsReady"] == ("Unknown", "SubnetsResolutionFailed")
    assert conditions(world)["ValidationSucceeded"] == ("Unknown", "DependenciesNotReady")
    assert conditions(world)["Ready"][0] == "Unknown"


def test_a_class_is_ready_seconds_after_the_cloud_can_be_asked_again() -> None:
    world = World()
    world.cloud.resolved = ClassStatus(status={}, unsure=OUTAGE)
    world.run(nodeclass.registration)
    world.add(EC2_NODE_CLASSES, wire.node_class(ready=None))

    world.cloud.resolved = ClassStatus(status=FOUND)
    world.wait(5)

    assert conditions(world)["Ready"] == ("True", "Ready")


def test_each_problem_is_logged_once_with_what_the_cloud_said() -> None:
    world = a_world(SubnetsReady=("SubnetsNotFound", "no subnet matches team=a"))

    world.wait(600)

    [line] = world.log.said("failed resolving nodeclass")
    assert line["nodeclass"] == "default"
    assert line["condition"] == "SubnetsReady"
    assert line["error"] == "no subnet matches team=a"


def test_one_line_is_enough_for_calls_that_fail_alike() -> None:
    said = "ExpiredToken: the token has expired; give the controller credentials"
    world = a_world(
        SubnetsReady=("SubnetsResolutionFailed", f"DescribeSubnets: {said}"),
        AMIsReady=("AMIsResolutionFailed", f"DescribeImages: {said}"),
        InstanceProfileReady=("RoleNotFound", "GetInstanceProfile: NoSuchEntity: no such role"),
    )

    world.wait(600)

    alike, other = world.log.said("failed resolving nodeclass")
    assert alike["condition"] == "AMIsReady, SubnetsReady"
    assert alike["error"] == f"DescribeImages: {said}"
    assert other["condition"] == "InstanceProfileReady"


def test_reservations_are_no_condition_where_they_are_switched_off() -> None:
    world = World()
    off = SchedulingSettings(reserved_capacity=False)
    world.run(partial(nodeclass.registration, settings=off))

    world.add(EC2_NODE_CLASSES, wire.node_class(ready=None))

    assert "CapacityReservationsReady" not in conditions(world)
    assert conditions(world)["Ready"] == ("True", "Ready")


def test_an_annotation_has_a_class_looked_up_again_and_a_hash_does_not() -> None:
    world = a_world()
    ours = {"karpenter.k8s.aws/ec2nodeclass-hash": "1"}

    world.patch(EC2_NODE_CLASSES, "default", {"metadata": {"annotations": ours}})
    assert len(world.cloud.calls("resolve")) == 1
    world.patch(EC2_NODE_CLASSES, "default", {"metadata": {"annotations": {"try": "again"}}})

    assert len(world.cloud.calls("resolve")) == 2


@pytest.mark.parametrize("writes", [1, 2])
def test_controllers_killed_after_any_write_finish_after_a_restart(writes: int) -> None:
    world = World()
    world.die_after(writes)
    world.run(nodeclass.registration)
    world.add(EC2_NODE_CLASSES, wire.node_class(ready=None))

    world.restart()

    assert conditions(world)["Ready"] == ("True", "Ready")
    assert world.get(EC2_NODE_CLASSES, "default")["metadata"]["finalizers"] == [nodeclass.FINALIZER]


def test_a_second_pass_changes_nothing() -> None:
    world = a_world()
    before = world.versions()

    world.wait(3600)

    assert world.versions() == before
