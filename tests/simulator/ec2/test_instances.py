"""The life of an instance, what it costs, and the warnings that come before its end."""

from datetime import timedelta

import pytest

from dovetail.ports.cloudprovider import (
    CloudError,
    Instance,
    InstanceNotFound,
    Interruption,
    Message,
)
from dovetail.simulator.ec2.account import WARNING, Trouble
from dovetail.simulator.ec2.instances import State
from dovetail.simulator.ec2.interruption_queue import LONGEST_POLL, VISIBILITY
from dovetail.simulator.ec2.latencies import Latencies
from dovetail.simulator.ec2.throttling import Fault, Operation, Rate
from tests.simulator.ec2.place import ON_DEMAND, SPOT, Place, a_claim

HOUR = 3600.0


def state_of(place: Place, bought: Instance) -> State | None:
    found = place.ec2.find(bought.provider_id.rpartition("/")[2])
    return None if found is None else found.state


def kinds(messages: list[Message]) -> list[Interruption]:
    return [one.kind for one in messages]


def drain(place: Place) -> list[Message]:
    """Receive and remove all that is there now."""
    taken: list[Message] = []
    while found := place.ec2.queue.receive(place.now):
        for one in found:
            place.do(place.interruptions.remove(one))
        taken += found
    return taken


def test_an_instance_is_pending_then_runs_and_then_its_kubelet_starts() -> None:
    place = Place()
    bought = place.do(place.cloud.create(a_claim()))

    assert state_of(place, bought) is State.PENDING
    place.wait(3)
    assert state_of(place, bought) is State.RUNNING
    place.wait(29.9)
    assert not place.booted
    place.wait(0.1)
    assert [one.provider_id for one in place.booted] == [bought.provider_id]


def test_deleting_shuts_down_first_and_the_machine_halts_once_it_is_gone() -> None:
    place = Place()
    bought = place.do(place.cloud.create(a_claim()))
    place.wait(60)

    place.do(place.cloud.delete(bought.provider_id))

    assert place.do(place.cloud.get(bought.provider_id)).terminating
    assert place.halted == []
    place.do(place.cloud.delete(bought.provider_id))
    place.wait(3)
    assert place.halted == [bought.provider_id]
    for call in (place.cloud.delete, place.cloud.get):
        with pytest.raises(InstanceNotFound):
            place.do(call(bought.provider_id))
    assert place.do(place.cloud.list()) == []


def test_a_machine_deleted_before_it_booted_never_boots() -> None:
    place = Place()
    bought = place.do(place.cloud.create(a_claim()))
    place.wait(10)

    place.do(place.cloud.delete(bought.provider_id))
    place.wait(60)

    assert place.booted == []
    assert place.halted == [bought.provider_id]


def test_an_instance_costs_from_running_until_it_shuts_down() -> None:
    place = Place()
    bought = place.do(place.cloud.create(a_claim(kinds=[ON_DEMAND])))
    assert place.ec2.ledger.price_per_hour() == 0

    place.wait(3 + HOUR / 2)
    assert place.ec2.ledger.price_per_hour() == 0.1
    assert place.ec2.ledger.cost(place.now) == pytest.approx(0.05)
    place.do(place.cloud.delete(bought.provider_id))
    place.wait(HOUR)

    assert place.ec2.ledger.price_per_hour() == 0
    assert place.ec2.ledger.cost(place.now) == pytest.approx(0.05)


def test_an_instance_that_never_ran_costs_nothing() -> None:
    place = Place()
    bought = place.do(place.cloud.create(a_claim()))

    place.do(place.cloud.delete(bought.provider_id))
    place.wait(HOUR)

    assert place.ec2.ledger.cost(place.now) == 0
    (purchase,) = place.ec2.ledger.purchases
    assert purchase.running is None
    assert purchase.terminated is not None


def test_the_ledger_says_for_which_claim_an_instance_was_launched_and_when_it_ended() -> None:
    place = Place()
    bought = place.do(place.cloud.create(a_claim("mine")))
    launched = place.now
    place.wait(60)
    place.do(place.cloud.delete(bought.provider_id))
    place.wait(60)

    (purchase,) = place.ec2.ledger.purchases
    assert (purchase.claim, purchase.claim_uid) == ("mine", "uid-of-mine")
    assert purchase.launched == launched
    assert purchase.shutting_down == launched + timedelta(seconds=60)
    assert purchase.terminated == launched + timedelta(seconds=63)


def test_an_instance_can_be_scripted_never_to_run_or_never_to_join() -> None:
    place = Place()
    place.ec2.spoil_next(Trouble.NEVER_RUNS)
    place.ec2.spoil_next(Trouble.NEVER_JOINS)

    stuck, mute, fine = (
        place.do(place.cloud.create(a_claim(name))) for name in ("stuck", "mute", "fine")
    )
    place.wait(600)

    assert state_of(place, stuck) is State.PENDING
    assert state_of(place, mute) is State.RUNNING
    assert [one.provider_id for one in place.booted] == [fine.provider_id]
    place.do(place.cloud.delete(stuck.provider_id))
    place.wait(3)
    assert state_of(place, stuck) is None


def test_a_spot_interruption_is_announced_two_minutes_ahead() -> None:
    place = Place()
    bought = place.do(place.cloud.create(a_claim()))
    place.wait(60)

    instance_id = bought.provider_id.rpartition("/")[2]
    place.ec2.interrupt(instance_id)
    place.wait(0)
    (warning,) = drain(place)
    place.wait(WARNING.total_seconds() - 1)
    assert state_of(place, bought) is State.RUNNING
    place.wait(1)

    assert (warning.kind, warning.instance_ids) == (Interruption.SPOT, (instance_id,))
    assert state_of(place, bought) is State.SHUTTING_DOWN
    place.wait(3)
    assert place.halted == [bought.provider_id]


def test_a_rebalance_recommendation_can_precede_the_warning() -> None:
    place = Place()
    bought = place.do(place.cloud.create(a_claim()))

    place.ec2.interrupt(bought.provider_id.rpartition("/")[2], recommended=timedelta(minutes=1))

    assert kinds(drain(place)) == [Interruption.REBALANCE]
    place.wait(60)
    assert kinds(drain(place)) == [Interruption.SPOT]


def test_an_instance_deleted_in_time_is_not_interrupted_any_more() -> None:
    place = Place()
    bought = place.do(place.cloud.create(a_claim()))
    place.ec2.interrupt(bought.provider_id.rpartition("/")[2])
    place.wait(30)

    place.do(place.cloud.delete(bought.provider_id))
    place.wait(600)

    assert place.halted == [bought.provider_id]


def test_a_receiver_waits_for_a_message_but_not_for_ever() -> None:
    place = Place()
    bought = place.do(place.cloud.create(a_claim()))

    received = place.begin(place.interruptions.receive())
    place.wait(5)
    assert received == []
    place.ec2.recommend_rebalance(bought.provider_id.rpartition("/")[2])
    place.wait(0)
    assert len(received) == 1

    drain(place)
    place.wait(VISIBILITY.total_seconds())
    drain(place)
    before = place.now
    assert place.do(place.interruptions.receive()) == []
    assert place.now == before + LONGEST_POLL


def test_a_message_that_was_not_removed_comes_again_even_to_another_process() -> None:
    place = Place()
    bought = place.do(place.cloud.create(a_claim()))
    place.ec2.recommend_rebalance(bought.provider_id.rpartition("/")[2])
    first = place.do(place.interruptions.receive())

    place.loop.stop()
    place.start_process()
    before = place.now
    second = place.do(place.interruptions.receive())

    assert second == first
    assert place.now == before + VISIBILITY
    place.do(place.interruptions.remove(second[0]))
    assert place.do(place.interruptions.receive()) == []


def test_a_message_that_nobody_takes_is_dropped_after_five_minutes() -> None:
    place = Place()
    bought = place.do(place.cloud.create(a_claim()))
    place.ec2.recommend_rebalance(bought.provider_id.rpartition("/")[2])

    place.wait(301)

    assert place.do(place.interruptions.receive()) == []


def test_calls_take_their_time_and_the_effect_falls_in_the_middle() -> None:
    place = Place(latencies=Latencies())
    before = place.now

    bought = place.begin(place.cloud.create(a_claim()))
    place.wait(0.4)
    assert len(place.ec2.ledger.purchases) == 1
    assert not bought
    place.wait(0.4)

    assert isinstance(bought[0], Instance)
    assert bought[0].launched == before + timedelta(seconds=0.4)


def test_a_process_killed_in_mid_call_leaves_what_ec2_had_done_and_never_hears_of_it() -> None:
    place = Place(latencies=Latencies())
    heard = place.begin(place.cloud.create(a_claim()))
    place.wait(0.5)

    place.loop.stop()
    place.wait(60)
    place.start_process()

    assert heard == []
    (left,) = place.do(place.cloud.list())
    assert left.claim == "claim"
    assert len(place.booted) == 1


def test_too_many_calls_are_throttled_and_tried_again_by_the_client() -> None:
    place = Place(rates={Operation.CREATE_FLEET: Rate(per_second=1, burst=2)})

    calls = [place.begin(place.cloud.create(a_claim(f"claim-{n}"))) for n in range(6)]
    place.wait(0)
    at_once = sum(1 for one in calls if one)
    place.wait(10)

    bought = [one[0] for one in calls if isinstance(one[0], Instance)]
    refused = [one[0] for one in calls if isinstance(one[0], CloudError)]
    assert at_once == 2
    assert len(bought) == 4 + 1
    assert [getattr(one, "reason", "") for one in refused] == ["RequestLimitExceeded"]


def test_a_scripted_fault_strikes_the_calls_it_names_and_no_others() -> None:
    place = Place()
    place.ec2.faults.script(
        Fault(operation=Operation.DESCRIBE_INSTANCES, nth=2, times=2, code="InternalError")
    )

    def works() -> bool:
        try:
            place.do(place.cloud.list())
        except CloudError:
            return False
        return True

    assert [works() for _ in range(5)] == [True, False, False, True, True]
    assert place.do(place.cloud.create(a_claim())).capacity_type == SPOT
