"""The cloud's own checks of machines: 135 of the AWS checklist."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import pytest

from dovetail.controllers.interruption import status_checks
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.cloudprovider import Ailment, Interruption
from tests.support import wire
from tests.support.world import World

UNHEALTHY = "karpenter_interruption_instance_status_unhealthy_total"
MACHINE = "aws:///us-east-1a/i-1"
CHECKS = [Interruption.INSTANCE_STATUS, Interruption.SYSTEM_STATUS]


class Checked:
    """Checks that find what a test says."""

    def __init__(self) -> None:
        self.found: list[Ailment] = []

    async def ailing(self) -> Sequence[Ailment]:
        return self.found


def a_world(checked: Checked, **claim: object) -> World:
    world = World().run(partial(status_checks.registration, checkups=checked))
    made = wire.claim("claim", finalizers=["test/held"], provider_id=MACHINE)
    made["metadata"].update(claim)
    world.add(NODE_CLAIMS, made)
    world.add(NODES, wire.node("node", provider_id=MACHINE))
    return world


def ail(world: World, checked: Checked, kind: Interruption, *, seconds: float) -> World:
    """Have a check have failed for so long, and let it be noticed."""
    since = world.now + timedelta(seconds=60 - seconds)
    checked.found = [Ailment(instance_id="i-1", kind=kind, since=since)]
    return world.wait(60)


@pytest.mark.parametrize("kind", CHECKS)
def test_a_machine_that_failed_for_two_minutes_goes_without_waiting_for_its_pods(
    kind: Interruption,
) -> None:
    checked = Checked()

    world = ail(a_world(checked), checked, kind, seconds=120)

    claim = world.claim()
    assert claim.deleting
    assert claim.annotations[label_keys.TERMINATION_TIMESTAMP] == f"{world.now:%Y-%m-%dT%H:%M:%SZ}"
    assert world.events.about("node") == ["InstanceUnhealthy", "TerminatingOnInterruption"]


@pytest.mark.parametrize("kind", CHECKS)
def test_a_hiccup_is_no_reason(kind: Interruption) -> None:
    checked = Checked()

    world = ail(a_world(checked), checked, kind, seconds=119)

    assert world.writes == []
    assert world.metrics.total(UNHEALTHY) == 0


def test_a_machine_that_the_cloud_will_touch_is_drained_with_patience_and_at_once() -> None:
    checked = Checked()

    world = ail(a_world(checked), checked, Interruption.EVENT_STATUS, seconds=0)

    claim = world.claim()
    assert claim.deleting
    assert label_keys.TERMINATION_TIMESTAMP not in claim.annotations


def test_a_deadline_that_is_there_already_is_not_moved() -> None:
    checked = Checked()
    known = {label_keys.TERMINATION_TIMESTAMP: "2026-01-01T00:00:00Z"}
    world = a_world(checked, annotations=known)

    ail(world, checked, Interruption.SYSTEM_STATUS, seconds=200)

    assert dict(world.claim().annotations) == known
    assert world.claim().deleting


def test_an_incident_is_counted_once_and_again_when_it_comes_back() -> None:
    checked = Checked()
    world = ail(a_world(checked), checked, Interruption.SYSTEM_STATUS, seconds=200)
    world.wait(180)
    once = world.metrics.total(UNHEALTHY, category="system_status")

    checked.found = []
    world.wait(60)
    ail(world, checked, Interruption.SYSTEM_STATUS, seconds=200)

    assert once == 1
    assert world.metrics.total(UNHEALTHY, category="system_status") == 2


def test_a_machine_that_is_not_ours_is_no_matter() -> None:
    checked = Checked()
    world = a_world(checked)
    checked.found = [Ailment(instance_id="i-2", kind=Interruption.EVENT_STATUS)]

    world.wait(60)

    assert world.writes == []
    assert world.metrics.total(UNHEALTHY) == 0


def test_a_second_pass_changes_nothing() -> None:
    checked = Checked()
    world = ail(a_world(checked), checked, Interruption.SYSTEM_STATUS, seconds=200)
    before = world.versions()

    world.wait(300)

    assert world.versions() == before
