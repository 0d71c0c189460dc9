"""Zonal shift: 86 of the AWS checklist."""

from dovetail.controllers.interruption import zonal_shift
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import NodeTemplate
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.ports.api_resources import NODE_POOLS
from dovetail.ports.cloudprovider import CloudError
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOffering
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests
from tests.support.scheduling.instance_types import Z1, Z2, a_type


class FakeZonalShiftProvider:
    """``ports.cloudprovider.ZonalShiftProvider`` that a test controls."""

    def __init__(self) -> None:
        self.zones: set[str] = set()
        self.error: Exception | None = None

    async def list_shifted_zones(self) -> set[str]:
        if self.error is not None:
            raise self.error
        return set(self.zones)


def an_environment() -> tuple[ControllerEnvironment, FakeZonalShiftProvider]:
    """Return a NodePool for all zones and one for the second zone only."""
    env, shifts = ControllerEnvironment(), FakeZonalShiftProvider()
    env.cloud.types = (a_type("m5.large"),)
    env.run(zonal_shift.controller, zonal_shifts=shifts)
    env.add(NODE_POOLS, manifests.pool("all"))
    zone = RequirementSpec(label_keys.ZONE, Operator.IN, (Z2,))
    env.add(NODE_POOLS, manifests.pool("second", template=NodeTemplate(requirements=(zone,))))
    return env, shifts


def unavailable_zones(env: ControllerEnvironment) -> set[str]:
    return {offering.zone for offering in env.unavailable_offerings.get(env.now)}


def events(env: ControllerEnvironment) -> list[tuple[str, str]]:
    return [(event.name, event.reason) for event in env.events.published]


def test_offerings_of_a_shifted_zone_are_unavailable() -> None:
    env, shifts = an_environment()

    shifts.zones = {Z1}
    env.wait(30)
    first = unavailable_zones(env)
    env.wait(3600)

    assert first == unavailable_zones(env) == {Z1}
    assert env.unavailable_offerings.get(env.now) == {UnavailableOffering(zone=Z1)}


def test_offerings_are_available_again_when_the_shift_ends() -> None:
    env, shifts = an_environment()
    shifts.zones = {Z1, Z2}
    env.wait(30)

    shifts.zones = {Z2}
    env.wait(30)

    assert unavailable_zones(env) == {Z2}


def test_nodepools_that_can_use_the_zone_get_one_event_at_start_and_end() -> None:
    env, shifts = an_environment()

    shifts.zones = {Z1}
    env.wait(300)
    shifts.zones = set()
    env.wait(300)

    assert events(env) == [("all", "ZonalShiftActive"), ("all", "ZonalShiftCleared")]


def test_nodepool_without_offerings_in_the_zone_gets_no_event() -> None:
    env, shifts = an_environment()
    env.cloud.types = ()

    shifts.zones = {Z1}
    env.wait(30)

    assert events(env) == []


def test_after_api_errors_a_zone_stays_unavailable_for_three_minutes() -> None:
    env, shifts = an_environment()
    shifts.zones = {Z1}
    env.wait(30)

    shifts.error = CloudError("no answer")
    env.wait(120)
    before = unavailable_zones(env)
    env.wait(120)

    assert before == {Z1}
    assert unavailable_zones(env) == set()


def test_without_zonal_shift_provider_there_is_no_controller() -> None:
    env = ControllerEnvironment()

    assert zonal_shift.controller(env.context()) is None


def test_second_reconcile_changes_nothing() -> None:
    env, shifts = an_environment()
    shifts.zones = {Z1}
    env.wait(30)
    before = (env.versions(), events(env))

    env.wait(600)

    assert (env.versions(), events(env)) == before
