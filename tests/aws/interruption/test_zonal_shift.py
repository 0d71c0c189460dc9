"""Instances in shifted zones are not changed: 86 and 140 of the checklist."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from dovetail.aws.interruption.zonal_shift import ArcZonalShifts, ZonalShiftCloudProvider, shifted_zone_ids
from dovetail.errors import DovetailError
from dovetail.ports.cloudprovider import CloudError
from tests.simulator.ec2.harness import REGION, A, B, a_claim
from tests.support.aws.launches import claims
from tests.support.aws.provider_process import AwsProcess
from tests.support.moto.server import MotoAws

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ARN = "arn:aws:eks:eu-west-1:123456789012:cluster/moto"
ASKED = f"GET /managedresources/{ARN}"
CREATED = claims(1)[0].created


def a_shift(zone_id: str, status: str = "APPLIED", **more: Any) -> dict[str, Any]:
    return {"awayFrom": zone_id, "appliedStatus": status, **more}


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ({}, []),
        ({"zonalShifts": [a_shift("az1"), a_shift("az2")]}, ["az1", "az2"]),
        ({"zonalShifts": [a_shift("az1", "NOT_APPLIED")]}, []),
        ({"zonalShifts": [a_shift("az1", expiryTime=NOW)]}, []),
        ({"zonalShifts": [a_shift("az1", expiryTime=NOW + timedelta(seconds=1))]}, ["az1"]),
        ({"autoshifts": [a_shift("az1"), a_shift("az2", "NOT_APPLIED")]}, ["az1"]),
    ],
)
def test_applied_shifts_and_autoshifts_count(text: dict[str, Any], ids: list[str]) -> None:
    assert list(shifted_zone_ids(text, now=NOW)) == ids


@pytest.fixture
def shifts(moto: MotoAws, process: AwsProcess) -> Iterator[ArcZonalShifts]:
    """The cluster's shifts; none in the beginning."""
    answer(moto)
    yield ArcZonalShifts(process.aws, cluster_arn=ARN, zones=lambda: REGION.zones, clock=process.loop)
    moto.middleware.responses.pop(ASKED, None)


def answer(moto: MotoAws, *zone_ids: str) -> None:
    message = {
        "arn": ARN,
        "appliedWeights": {},
        "zonalShifts": [
            a_shift(
                zone_id,
                zonalShiftId="shift-1",
                resourceIdentifier=ARN,
                expiryTime=4_000_000_000,
                startTime=1_700_000_000,
                comment="",
            )
            for zone_id in zone_ids
        ],
    }
    moto.middleware.responses[ASKED] = lambda _: ("application/json", msgspec.json.encode(message))


def test_shifted_zone_ids_are_returned_as_zone_names(
    moto: MotoAws, process: AwsProcess, shifts: ArcZonalShifts
) -> None:
    before = process.do(shifts.list_shifted_zones())

    answer(moto, REGION.zones[A], "elsewhere-az1")

    assert before == frozenset()
    assert process.do(shifts.list_shifted_zones()) == {A}
    assert (shifts.is_shifted(A), shifts.is_shifted(B)) == (True, False)


def test_an_unregistered_cluster_fails_at_startup(
    moto: MotoAws, process: AwsProcess, shifts: ArcZonalShifts
) -> None:
    del moto.middleware.responses[ASKED]

    with pytest.raises(DovetailError, match="remove --enable-zonal-shift"):
        process.do(shifts.start())


def test_in_a_shifted_zone_nothing_is_called_and_instances_are_cached(
    moto: MotoAws, process: AwsProcess, shifts: ArcZonalShifts
) -> None:
    cloud = ZonalShiftCloudProvider(process.cloud, is_shifted=shifts.is_shifted, clock=process.loop)
    there, here = (
        process.do(cloud.create(a_claim(f"in-{zone}", zones=[zone], created=CREATED))) for zone in (A, B)
    )
    process.do(cloud.list())
    answer(moto, REGION.zones[A])
    process.do(shifts.list_shifted_zones())
    moto.capacity.hidden = {there.provider_id.rpartition("/")[2]}
    before = dict(moto.middleware.calls)

    for work in (
        cloud.delete(there.provider_id),
        cloud.tag(there.provider_id, node="node", claim="claim"),
        cloud.drift_reason(msgspec.structs.replace(a_claim(), provider_id=there.provider_id)),
        cloud.get(f"aws:///{A}/i-unknown"),
    ):
        with pytest.raises(CloudError, match=f"is not changed while zone {A} is shifted away from"):
            process.do(work)
    observed = process.do(cloud.get(there.provider_id))

    assert dict(moto.middleware.calls) == before
    assert observed.instance_type == there.instance_type
    assert {entry.provider_id for entry in process.do(cloud.list())} == {there.provider_id, here.provider_id}


def test_other_zones_are_not_affected_by_a_shift(
    moto: MotoAws, process: AwsProcess, shifts: ArcZonalShifts
) -> None:
    cloud = ZonalShiftCloudProvider(process.cloud, is_shifted=shifts.is_shifted, clock=process.loop)
    answer(moto, REGION.zones[A])
    process.do(shifts.list_shifted_zones())
    here = process.do(cloud.create(a_claim(zones=[B], created=CREATED)))

    process.do(cloud.tag(here.provider_id, node="node", claim="claim"))
    process.do(cloud.delete(here.provider_id))

    assert process.do(cloud.list()) == []


def test_terminated_instances_are_dropped_after_the_shift(
    moto: MotoAws, process: AwsProcess, shifts: ArcZonalShifts
) -> None:
    cloud = ZonalShiftCloudProvider(process.cloud, is_shifted=shifts.is_shifted, clock=process.loop)
    there = process.do(cloud.create(a_claim(zones=[A], created=CREATED)))
    answer(moto, REGION.zones[A])
    process.do(shifts.list_shifted_zones())
    process.ec2.terminate_instances(InstanceIds=[there.provider_id.rpartition("/")[2]])
    during = process.do(cloud.list())

    answer(moto)
    process.do(shifts.list_shifted_zones())

    assert [entry.provider_id for entry in during] == [there.provider_id]
    assert process.do(cloud.list()) == []
