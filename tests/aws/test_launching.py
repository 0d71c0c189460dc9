"""Launching against moto: few calls, none lost, nothing bought twice."""

import time

from dovetail.ports.cloud import Instance
from tests.aws.buying import bought, claims
from tests.sim.cloud.place import a_claim
from tests.support.moto.door import Fault
from tests.support.moto.process import AwsProcess
from tests.support.moto.server import MotoAws


def test_a_hundred_claims_that_are_alike_become_at_most_three_calls_within_three_seconds(
    moto: MotoAws, process: AwsProcess
) -> None:
    wanted = claims(100)
    before = time.perf_counter()

    machines = bought(process, wanted)

    assert time.perf_counter() - before < 3
    assert moto.door.calls["CreateFleet"] <= 3
    assert len({one.provider_id for one in machines}) == 100
    assert [one.claim for one in machines] == [claim.name for claim in wanted]


def test_a_throttled_account_gets_every_request_in_the_end(
    moto: MotoAws, process: AwsProcess
) -> None:
    moto.door.script(Fault(operation="*", times=12))

    machines = bought(process, claims(20))

    assert len({one.provider_id for one in machines}) == 20
    assert len(process.do(process.cloud.list())) == 20


def test_claims_that_differ_are_bought_by_calls_of_their_own(
    moto: MotoAws, process: AwsProcess
) -> None:
    outcomes = process.together(
        [process.cloud.create(a_claim(f"cpu-{cpu}", cpu=cpu)) for cpu in ("1", "3")]
    )

    assert moto.door.calls["CreateFleet"] == 2
    assert [one.instance_type for one in outcomes if isinstance(one, Instance)] == [
        "m5.large",
        "c5.xlarge",
    ]
