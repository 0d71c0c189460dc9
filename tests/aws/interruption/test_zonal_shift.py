"""Machines in zones that are shifted away from are left alone: 86 and 140 of the checklist."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from dovetail.aws.interruption.zonal_shift import ArcZonalShifts, shifted_ids
from dovetail.aws.interruption.zonal_shift_filter import StayingAway
from dovetail.errors import DovetailError
from dovetail.ports.cloudprovider import CloudError
from tests.aws.buying import claims
from tests.simulator.ec2.place import REGION, A, B, a_claim
from tests.support.moto.process import AwsProcess
from tests.support.moto.server import MotoAws

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ARN = "arn:aws:eks:eu-west-1:123456789012:cluster/moto"
ASKED = f"GET /managedresources/{ARN}"
CREATED = claims(1)[0].created


def a_shift(zone_id: str, status: str = "APPLIED", **more: Any) -> dict[str, Any]:
    return {"awayFrom": zone_id, "appliedStatus": status, **more}


@pytest.mark.parametrize(
    ("told", "ids"),
    [
        ({}, []),
        ({"zonalShifts": [a_shift("az1"), a_shift("az2")]}, ["az1", "az2"]),
        ({"zonalShifts": [a_shift("az1", "NOT_APPLIED")]}, []),
        ({"zonalShifts": [a_shift("az1", expiryTime=NOW)]}, []),
        ({"zonalShifts": [a_shift("az1", expiryTime=NOW + timedelta(seconds=1))]}, ["az1"]),
        ({"autoshifts": [a_shift("az1"), a_shift("az2", "NOT_APPLIED")]}, ["az1"]),
    ],
)
def test_shifts_that_are_applied_now_count_whoever_began_them(
    told: dict[str, Any], ids: list[str]
) -> None:
    assert list(shifted_ids(told, now=NOW)) == ids


@pytest.fixture
def shifts(moto: MotoAws, process: AwsProcess) -> Iterator[ArcZonalShifts]:
    """The cluster's shifts; none in the beginning."""
    answer(moto)
    yield ArcZonalShifts(
        process.aws, cluster_arn=ARN, zones=lambda: REGION.zones, clock=process.loop
    )
    moto.door.answering.pop(ASKED, None)


def answer(moto: MotoAws, *zone_ids: str) -> None:
    told = {
        "arn": ARN,
        "appliedWeights": {},
        "zonalShifts": [
            a_shift(
                one,
                zonalShiftId="shift-1",
                resourceIdentifier=ARN,
                expiryTime=4_000_000_000,
                startTime=1_700_000_000,
                comment="",
            )
            for one in zone_ids
        ],
    }
    moto.door.answering[ASKED] = lambda _: ("application/json", msgspec.json.encode(told))


def test_shifts_speak_of_zone_ids_and_are_told_as_zones(
    moto: MotoAws, process: AwsProcess, shifts: ArcZonalShifts
) -> None:
    before = process.do(shifts.away_from())

    answer(moto, REGION.zones[A], "elsewhere-az1")

    assert before == frozenset()
    assert process.do(shifts.away_from()) == {A}
    assert (shifts.is_shifted(A), shifts.is_shifted(B)) == (True, False)


def test_a_cluster_that_is_not_registered_for_shifts_is_said_at_the_start(
    moto: MotoAws, process: AwsProcess, shifts: ArcZonalShifts
) -> None:
    del moto.door.answering[ASKED]

    with pytest.raises(DovetailError, match="leave --enable-zonal-shift out"):
        process.do(shifts.begin())


def test_in_a_shifted_zone_nothing_is_asked_ended_or_tagged_and_all_is_remembered(
    moto: MotoAws, process: AwsProcess, shifts: ArcZonalShifts
) -> None:
    cloud = StayingAway(process.cloud, is_shifted=shifts.is_shifted, clock=process.loop)
    there, here = (
        process.do(cloud.create(a_claim(f"in-{zone}", zones=[zone], created=CREATED)))
        for zone in (A, B)
    )
    process.do(cloud.list())
    answer(moto, REGION.zones[A])
    process.do(shifts.away_from())
    moto.shop.hidden = {there.provider_id.rpartition("/")[2]}
    before = dict(moto.door.calls)

    for work in (
        cloud.delete(there.provider_id),
        cloud.tag(there.provider_id, node="node", claim="claim"),
        cloud.drift(msgspec.structs.replace(a_claim(), provider_id=there.provider_id)),
        cloud.get(f"aws:///{A}/i-nobody-saw"),
    ):
        with pytest.raises(CloudError, match=f"left alone while {A} is shifted"):
            process.do(work)
    seen = process.do(cloud.get(there.provider_id))

    assert dict(moto.door.calls) == before
    assert seen.instance_type == there.instance_type
    assert {one.provider_id for one in process.do(cloud.list())} == {
        there.provider_id,
        here.provider_id,
    }


def test_in_other_zones_all_goes_on(
    moto: MotoAws, process: AwsProcess, shifts: ArcZonalShifts
) -> None:
    cloud = StayingAway(process.cloud, is_shifted=shifts.is_shifted, clock=process.loop)
    answer(moto, REGION.zones[A])
    process.do(shifts.away_from())
    here = process.do(cloud.create(a_claim(zones=[B], created=CREATED)))

    process.do(cloud.tag(here.provider_id, node="node", claim="claim"))
    process.do(cloud.delete(here.provider_id))

    assert process.do(cloud.list()) == []


def test_what_is_gone_from_a_zone_is_forgotten_after_the_shift(
    moto: MotoAws, process: AwsProcess, shifts: ArcZonalShifts
) -> None:
    cloud = StayingAway(process.cloud, is_shifted=shifts.is_shifted, clock=process.loop)
    there = process.do(cloud.create(a_claim(zones=[A], created=CREATED)))
    answer(moto, REGION.zones[A])
    process.do(shifts.away_from())
    process.ec2.terminate_instances(InstanceIds=[there.provider_id.rpartition("/")[2]])
    during = process.do(cloud.list())

    answer(moto)
    process.do(shifts.away_from())

    assert [one.provider_id for one in during] == [there.provider_id]
    assert process.do(cloud.list()) == []
