"""What holds whatever is asked of the account, in whatever order."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.ports.cloudprovider import CloudError
from dovetail.simulator.ec2.capacity import Shortage
from dovetail.simulator.ec2.throttling import Fault, Operation
from tests.simulator.ec2.place import Place, a_claim

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


def take(place: Place, step: str, number: int) -> None:
    bought = {one.claim_uid: one.provider_id for one in place.ec2.ledger.purchases}
    provider_id = bought.get(f"uid-of-claim-{number}", "aws:///nowhere/i-none")
    if step == "create":
        place.do(place.cloud.create(a_claim(f"claim-{number}")))
    elif step == "delete":
        place.do(place.cloud.delete(provider_id))
    elif step == "interrupt":
        place.ec2.interrupt(provider_id.rpartition("/")[2])
    elif step == "wait":
        place.wait(number)
    elif step == "sell out":
        place.ec2.stock.run_short(Shortage(instance_type="m5.large", left=number))
    elif step == "crash":
        place.loop.stop()
        place.start_process()
    else:
        after = step == "fail after"
        place.ec2.faults.script(Fault(operation=Operation.CREATE_FLEET, after_effect=after))


@given(st.lists(_STEPS, max_size=25))
def test_a_claim_never_gets_two_machines_and_the_bill_adds_up(
    steps: list[tuple[str, int]],
) -> None:
    place = Place()
    for step, number in steps:
        try:
            take(place, step, number)
        except CloudError:
            continue

    ledger, now = place.ec2.ledger, place.now
    owed, rate = 0.0, 0.0
    for one in ledger.purchases:
        if one.running is not None:
            owed += one.price * (((one.shutting_down or now) - one.running) / timedelta(hours=1))
            rate += 0 if one.shutting_down else one.price

    assert ledger.bought_twice() == []
    assert ledger.cost(now) == pytest.approx(owed)
    assert ledger.price_per_hour() == pytest.approx(rate)
    gone = {one.provider_id for one in ledger.purchases if one.terminated}
    assert set(place.halted) == gone
    assert {one.provider_id for one in place.ec2.instances()} == {
        one.provider_id for one in ledger.purchases
    } - gone
