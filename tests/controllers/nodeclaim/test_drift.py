"""The Drifted condition: DF1–DF21, CN9 of the lifecycle checklist, 33 and 34 of the AWS one."""

from typing import Any

import pytest

from dovetail.controllers.nodeclaim import consolidatable, drift
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.controllers.nodepool import hash as stamping
from dovetail.core.nodeclass.drift import DriftUnknown
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS, NODES
from dovetail.ports.cloudprovider import CloudError, InstanceNotFound
from tests.support import wire
from tests.support.catalog import a_type, offerings
from tests.support.cloud import TYPE, ZONE
from tests.support.world import World, condition

ALL = (
    lifecycle.registration,
    consolidatable.registration,
    stamping.registration,
    drift.registration,
)


def a_world(*claims: str, **pool: Any) -> World:
    """A pool with a claim whose machine is bought."""
    world = World().run(*ALL)
    world.add(EC2_NODE_CLASSES, wire.node_class())
    world.add(NODE_POOLS, wire.pool(**pool))
    stamps = world.pool().annotations
    for name in claims or ("claim",):
        world.add(NODE_CLAIMS, wire.claim(name, annotations=stamps))
    return world


def drifted(world: World, name: str = "claim") -> tuple[str, str]:
    return condition(world.claim(name).conditions, "Drifted")


def template(**fields: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": fields}}}


def only_in(zone: str) -> dict[str, Any]:
    wanted = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
    return template(requirements=[wanted])


def test_what_the_cloud_calls_drift_is_on_the_claim_within_five_minutes() -> None:
    world = a_world()
    world.cloud.drifted["claim"] = "AMIDrift"

    world.wait(299)
    before = drifted(world)
    world.wait(1)

    assert before == ("", "")
    assert drifted(world) == ("True", "AMIDrift")
    assert world.claim().conditions["Drifted"].message == "AMIDrift"


def test_news_of_the_class_are_looked_at_at_once() -> None:
    world = a_world()
    world.cloud.drifted["claim"] = "SubnetDrift"

    status = {"subnets": [{"id": "subnet-9", "zone": ZONE}]}
    world.patch(EC2_NODE_CLASSES, "default", {"status": status}, subresource="status")

    assert drifted(world) == ("True", "SubnetDrift")


def test_the_order_of_subnets_is_no_news() -> None:
    world = a_world()
    both = [{"id": "subnet-1", "zone": ZONE}, {"id": "subnet-2", "zone": ZONE}]
    world.patch(EC2_NODE_CLASSES, "default", {"status": {"subnets": both}}, subresource="status")
    asked = len(world.cloud.calls("drift"))

    turned = {"status": {"subnets": both[::-1]}}
    world.patch(EC2_NODE_CLASSES, "default", turned, subresource="status")

    assert len(world.cloud.calls("drift")) == asked


def test_what_is_no_drift_any_more_is_taken_away() -> None:
    world = a_world()
    world.cloud.drifted["claim"] = "AMIDrift"
    world.wait(300)

    world.cloud.drifted.clear()
    world.wait(300)

    assert "Drifted" not in world.claim().conditions


def test_another_reason_does_not_make_the_drift_younger() -> None:
    world = a_world()
    world.cloud.drifted["claim"] = "AMIDrift"
    world.wait(300)
    since = world.claim().conditions["Drifted"].since

    world.cloud.drifted["claim"] = "SubnetDrift"
    world.wait(300)

    assert drifted(world) == ("True", "SubnetDrift")
    assert world.claim().conditions["Drifted"].since == since


def test_a_changed_template_is_drift_at_once_and_before_what_the_cloud_says() -> None:
    world = a_world()
    world.cloud.drifted["claim"] = "AMIDrift"

    world.patch(NODE_POOLS, "default", template(expireAfter="1h"))

    assert drifted(world) == ("True", "NodePoolDrifted")


def test_requirements_that_a_node_does_not_meet_are_drift_before_what_the_cloud_says() -> None:
    world = a_world()
    world.cloud.drifted["claim"] = "AMIDrift"

    world.patch(NODE_POOLS, "default", only_in("elsewhere"))
    first = drifted(world)
    world.patch(NODE_POOLS, "default", only_in(ZONE))

    assert first == ("True", "RequirementsDrifted")
    assert drifted(world) == ("True", "AMIDrift")


def test_what_concerns_the_pool_only_is_not_looked_at() -> None:
    world = a_world()
    asked = len(world.cloud.calls("drift"))

    world.patch(NODE_POOLS, "default", {"spec": {"weight": 7, "limits": {"cpu": "1000"}}})

    assert len(world.cloud.calls("drift")) == asked


def test_pods_that_come_and_go_are_not_looked_at() -> None:
    world = a_world()
    asked = len(world.cloud.calls("drift"))

    happened = {"lastPodEventTime": "2026-01-01T00:00:00Z"}
    world.patch(NODE_CLAIMS, "claim", {"status": happened}, subresource="status")

    assert len(world.cloud.calls("drift")) == asked


@pytest.mark.parametrize("offered", [[], ["spot"]])
def test_a_type_that_is_not_sold_any_more_is_drift_after_an_hour(offered: list[str]) -> None:
    world = a_world()
    world.cloud.types = (a_type(TYPE, offered=offerings(1, [(one, ZONE) for one in offered])),)

    world.wait(3599)
    before = drifted(world)
    world.wait(301)

    assert before == ("", "")
    assert drifted(world) == ("True", "InstanceTypeNotFound")


def test_a_type_that_was_found_is_not_looked_for_again_for_half_an_hour() -> None:
    world = a_world()
    sold = (a_type(TYPE, offered=offerings(1, [("on-demand", ZONE)])),)
    world.cloud.types = sold
    world.wait(3900)

    world.cloud.types = (a_type("other"),)
    world.wait(1499)
    before = drifted(world)
    world.wait(600)

    assert before == ("", "")
    assert drifted(world) == ("True", "InstanceTypeNotFound")


def test_a_cloud_that_knows_no_types_at_all_says_nothing_of_drift() -> None:
    world = a_world().wait(7200)

    assert "Drifted" not in world.claim().conditions


@pytest.mark.parametrize("status", ["Unknown", "False"])
def test_what_is_not_launched_has_not_drifted(status: str) -> None:
    world = a_world()
    world.cloud.drifted["claim"] = "AMIDrift"
    world.wait(300).crash()
    known = world.get(NODE_CLAIMS, "claim")["status"]["conditions"]
    changed = [{**one, "status": status} if one["type"] == "Launched" else one for one in known]
    world.patch(NODE_CLAIMS, "claim", {"status": {"conditions": changed}}, subresource="status")

    world.run(drift.registration)

    assert "Drifted" not in world.claim().conditions


@pytest.mark.parametrize("kind", [NODE_POOLS, EC2_NODE_CLASSES])
def test_without_its_pool_or_class_nothing_is_said(kind: Any) -> None:
    world = a_world()
    world.cloud.drifted["claim"] = "AMIDrift"

    world.delete(kind, "default").wait(600)

    assert "Drifted" not in world.claim().conditions
    assert not [line for line in world.log.lines if line.level == "error"]


def test_a_claim_of_somebody_elses_is_left_alone() -> None:
    world = World().run(drift.registration)
    world.add(NODE_POOLS, wire.pool())
    world.add(NODE_CLAIMS, wire.claim(node_class=wire.SOMEBODY_ELSES))
    world.cloud.drifted["claim"] = "AMIDrift"

    world.wait(600)

    assert world.writes == []


@pytest.mark.parametrize("error", [DriftUnknown("?"), CloudError("throttled")])
def test_what_cannot_be_told_now_stays_as_it_was_and_is_asked_again(error: Exception) -> None:
    world = a_world()
    world.cloud.drifted["claim"] = "AMIDrift"
    world.wait(300)
    world.cloud.fail("drift", error)

    world.wait(300)
    during = drifted(world)
    world.cloud.drifted.clear()
    world.wait(300)

    assert during == ("True", "AMIDrift")
    assert "Drifted" not in world.claim().conditions
    assert not [line for line in world.log.lines if line.level == "error"]


def test_a_machine_that_is_gone_has_not_drifted() -> None:
    world = a_world()
    world.cloud.drifted["claim"] = "AMIDrift"
    world.cloud.fail("drift", InstanceNotFound("gone"))

    world.wait(300)

    assert "Drifted" not in world.claim().conditions


def test_drift_and_quiet_are_said_side_by_side() -> None:
    world = a_world()
    world.add(NODES, wire.node(provider_id=world.claim().provider_id))
    world.cloud.drifted["claim"] = "AMIDrift"

    world.wait(300)

    assert drifted(world)[0] == "True"
    assert condition(world.claim().conditions, "Consolidatable")[0] == "True"


def test_only_the_claims_that_have_drifted_say_so() -> None:
    world = a_world("one", "two")
    world.cloud.drifted["two"] = "AMIDrift"

    world.wait(300)

    assert (drifted(world, "one")[0], drifted(world, "two")[0]) == ("", "True")


def test_a_second_pass_changes_nothing() -> None:
    world = a_world("one", "two")
    world.cloud.drifted["two"] = "AMIDrift"
    world.wait(300)
    before = world.versions()

    world.restart().wait(3600)

    assert world.versions() == before
