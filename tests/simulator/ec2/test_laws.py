"""Laws of the EC2 account under any order of calls."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.ports.cloudprovider import CloudError
from dovetail.simulator.ec2.capacity import CapacityLimit
from dovetail.simulator.ec2.throttling import InjectedError, Operation
from tests.simulator.ec2.harness import Ec2Harness, a_claim

_CLAIMS = st.integers(0, 5)
_STEPS = st.one_of(
    st.tuples(st.just("create"), _CLAIMS),
    st.tuples(st.just("delete"), _CLAIMS),
    st.tuples(st.just("interrupt"), _CLAIMS),
    st.tuples(st.just("wait"), st.integers(1, 200)),
    st.tuples(st.just("sell out"), st.integers(0, 2)),
    st.tuples(st.just("fail before"), st.just(0)),
    st.tuples(st.just("fail after"), st.just(0)),
    st.tuples(st.just("crash"), st.just(0)),
)


def take(harness: Ec2Harness, step: str, number: int) -> None:
    launched = {launch.claim_uid: launch.provider_id for launch in harness.ec2.billing.launches}
    provider_id = launched.get(f"uid-of-claim-{number}", "aws:///nowhere/i-none")
    if step == "create":
        harness.do(harness.cloud.create(a_claim(f"claim-{number}")))
    elif step == "delete":
        harness.do(harness.cloud.delete(provider_id))
    elif step == "interrupt":
        harness.ec2.interrupt(provider_id.rpartition("/")[2])
    elif step == "wait":
        harness.wait(number)
    elif step == "sell out":
        harness.ec2.capacity.add_limit(CapacityLimit(instance_type="m5.large", remaining=number))
    elif step == "crash":
        harness.loop.stop()
        harness.start_process()
    else:
        after = step == "fail after"
        harness.ec2.error_injector.inject(InjectedError(operation=Operation.CREATE_FLEET, after_effect=after))


@given(st.lists(_STEPS, max_size=25))
def test_a_claim_never_gets_two_instances_and_the_cost_adds_up(steps: list[tuple[str, int]]) -> None:
    harness = Ec2Harness()
    for step, number in steps:
        try:
            take(harness, step, number)
        except CloudError:
            continue

    billing, now = harness.ec2.billing, harness.now
    owed, rate = 0.0, 0.0
    for launch in billing.launches:
        if launch.running is not None:
            owed += launch.price * (((launch.shutting_down or now) - launch.running) / timedelta(hours=1))
            rate += 0 if launch.shutting_down else launch.price

    assert billing.claims_launched_twice() == []
    assert billing.cost(now) == pytest.approx(owed)
    assert billing.price_per_hour() == pytest.approx(rate)
    deleted = {launch.provider_id for launch in billing.launches if launch.terminated}
    assert set(harness.terminated) == deleted
    assert {instance.provider_id for instance in harness.ec2.instances()} == {
        launch.provider_id for launch in billing.launches
    } - deleted
