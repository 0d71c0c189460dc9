"""Zones that the cluster is shifted away from: 86 of the AWS checklist."""

from functools import partial

from dovetail.controllers.interruption import zonal_shift
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import NodeTemplate
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.ports.api_resources import NODE_POOLS
from dovetail.ports.cloudprovider import CloudError
from dovetail.state.instancetypes.unavailable_offerings import Scarce
from tests.support import wire
from tests.support.catalog import Z1, Z2, a_type
from tests.support.world import World


class Shifts:
    """``ports.cloudprovider.ZonalShifts`` by script."""

    def __init__(self) -> None:
        self.zones: set[str] = set()
        self.error: Exception | None = None

    async def away_from(self) -> set[str]:
        if self.error is not None:
            raise self.error
        return set(self.zones)


def a_world() -> tuple[World, Shifts]:
    """One pool for all zones, and one for the second only."""
    world, shifts = World(), Shifts()
    world.cloud.types = (a_type("m5.large"),)
    world.run(partial(zonal_shift.registration, shifts=shifts))
    world.add(NODE_POOLS, wire.pool("all"))
    wanted = RequirementSpec(label_keys.ZONE, Operator.IN, (Z2,))
    world.add(NODE_POOLS, wire.pool("second", template=NodeTemplate(requirements=(wanted,))))
    return world, shifts


def closed(world: World) -> set[str]:
    return {one.zone for one in world.scarcity.marks(world.now)}


def told(world: World) -> list[tuple[str, str]]:
    return [(one.name, one.reason) for one in world.events.told]


def test_nothing_is_bought_in_a_zone_while_it_is_shifted_away_from() -> None:
    world, shifts = a_world()

    shifts.zones = {Z1}
    world.wait(30)
    soon = closed(world)
    world.wait(3600)

    assert soon == closed(world) == {Z1}
    assert world.scarcity.marks(world.now) == {Scarce(zone=Z1)}


def test_a_zone_is_open_again_as_soon_as_the_shift_has_ended() -> None:
    world, shifts = a_world()
    shifts.zones = {Z1, Z2}
    world.wait(30)

    shifts.zones = {Z2}
    world.wait(30)

    assert closed(world) == {Z2}


def test_only_pools_that_could_use_the_zone_are_told_once_when_it_goes_and_when_it_comes() -> None:
    world, shifts = a_world()

    shifts.zones = {Z1}
    world.wait(300)
    shifts.zones = set()
    world.wait(300)

    assert told(world) == [("all", "ZonalShiftActive"), ("all", "ZonalShiftCleared")]


def test_a_pool_whose_types_are_not_sold_in_the_zone_is_not_told() -> None:
    world, shifts = a_world()
    world.cloud.types = ()

    shifts.zones = {Z1}
    world.wait(30)

    assert told(world) == []


def test_what_cannot_be_asked_stays_closed_for_three_minutes_at_most() -> None:
    world, shifts = a_world()
    shifts.zones = {Z1}
    world.wait(30)

    shifts.error = CloudError("no answer")
    world.wait(120)
    before = closed(world)
    world.wait(120)

    assert before == {Z1}
    assert closed(world) == set()


def test_where_nobody_knows_of_shifts_nobody_asks() -> None:
    world = World()

    assert (
        zonal_shift.registration(
            shifts=None,
            mirror=world.mirror,
            cloud=world.cloud,
            scarcity=world.scarcity,
            loop=world.loop,
            log=world.log,
            events=world.events,
        )
        is None
    )


def test_a_second_pass_changes_nothing() -> None:
    world, shifts = a_world()
    shifts.zones = {Z1}
    world.wait(30)
    before = (world.versions(), told(world))

    world.wait(600)

    assert (world.versions(), told(world)) == before
