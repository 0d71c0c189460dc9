"""Instances: lifecycle, billing, interruptions and API errors."""

from datetime import timedelta

import pytest

from dovetail.ports.cloudprovider import (
    CloudError,
    Instance,
    InstanceNotFoundError,
    InterruptionKind,
    InterruptionMessage,
)
from dovetail.simulator.ec2.account import INTERRUPTION_NOTICE, LaunchFailure
from dovetail.simulator.ec2.instances import InstanceState
from dovetail.simulator.ec2.interruption_queue import MAX_POLL, VISIBILITY
from dovetail.simulator.ec2.throttling import InjectedError, Operation, Rate
from dovetail.simulator.latencies import CloudLatencies
from tests.simulator.ec2.harness import ON_DEMAND, SPOT, Ec2Harness, a_claim

HOUR = 3600.0


def state_of(harness: Ec2Harness, launched: Instance) -> InstanceState | None:
    instance = harness.ec2.find(launched.provider_id.rpartition("/")[2])
    return None if instance is None else instance.state


def kinds(messages: list[InterruptionMessage]) -> list[InterruptionKind]:
    return [message.kind for message in messages]


def drain(harness: Ec2Harness) -> list[InterruptionMessage]:
    """Receive and delete all visible messages."""
    taken: list[InterruptionMessage] = []
    while received := harness.ec2.queue.receive(harness.now):
        for message in received:
            harness.do(harness.interruptions.delete(message))
        taken += received
    return taken


def test_an_instance_is_pending_then_runs_and_then_its_kubelet_starts() -> None:
    harness = Ec2Harness()
    launched = harness.do(harness.cloud.create(a_claim()))

    assert state_of(harness, launched) is InstanceState.PENDING
    harness.wait(3)
    assert state_of(harness, launched) is InstanceState.RUNNING
    harness.wait(29.9)
    assert not harness.booted
    harness.wait(0.1)
    assert [instance.provider_id for instance in harness.booted] == [launched.provider_id]


def test_deletion_shuts_an_instance_down_and_its_kubelet_stops_once_it_has_terminated() -> None:
    harness = Ec2Harness()
    launched = harness.do(harness.cloud.create(a_claim()))
    harness.wait(60)

    harness.do(harness.cloud.delete(launched.provider_id))

    assert harness.do(harness.cloud.get(launched.provider_id)).terminating
    assert harness.terminated == []
    harness.do(harness.cloud.delete(launched.provider_id))
    harness.wait(3)
    assert harness.terminated == [launched.provider_id]
    for call in (harness.cloud.delete, harness.cloud.get):
        with pytest.raises(InstanceNotFoundError):
            harness.do(call(launched.provider_id))
    assert harness.do(harness.cloud.list()) == []


def test_an_instance_deleted_before_it_booted_never_boots() -> None:
    harness = Ec2Harness()
    launched = harness.do(harness.cloud.create(a_claim()))
    harness.wait(10)

    harness.do(harness.cloud.delete(launched.provider_id))
    harness.wait(60)

    assert harness.booted == []
    assert harness.terminated == [launched.provider_id]


def test_an_instance_costs_from_running_until_it_shuts_down() -> None:
    harness = Ec2Harness()
    launched = harness.do(harness.cloud.create(a_claim(kinds=[ON_DEMAND])))
    assert harness.ec2.billing.price_per_hour() == 0

    harness.wait(3 + HOUR / 2)
    assert harness.ec2.billing.price_per_hour() == 0.1
    assert harness.ec2.billing.cost(harness.now) == pytest.approx(0.05)
    harness.do(harness.cloud.delete(launched.provider_id))
    harness.wait(HOUR)

    assert harness.ec2.billing.price_per_hour() == 0
    assert harness.ec2.billing.cost(harness.now) == pytest.approx(0.05)


def test_an_instance_that_never_ran_costs_nothing() -> None:
    harness = Ec2Harness()
    launched = harness.do(harness.cloud.create(a_claim()))

    harness.do(harness.cloud.delete(launched.provider_id))
    harness.wait(HOUR)

    assert harness.ec2.billing.cost(harness.now) == 0
    (launch,) = harness.ec2.billing.launches
    assert launch.running is None
    assert launch.terminated is not None


def test_billing_records_the_claim_of_an_instance_and_when_it_terminated() -> None:
    harness = Ec2Harness()
    instance = harness.do(harness.cloud.create(a_claim("mine")))
    launched = harness.now
    harness.wait(60)
    harness.do(harness.cloud.delete(instance.provider_id))
    harness.wait(60)

    (launch,) = harness.ec2.billing.launches
    assert (launch.claim, launch.claim_uid) == ("mine", "uid-of-mine")
    assert launch.launched == launched
    assert launch.shutting_down == launched + timedelta(seconds=60)
    assert launch.terminated == launched + timedelta(seconds=63)


def test_launches_that_ended_long_ago_can_be_forgotten_and_their_cost_stays() -> None:
    harness = Ec2Harness()
    old, recent, _ = (
        harness.do(harness.cloud.create(a_claim(name, kinds=[ON_DEMAND])))
        for name in ("old", "recent", "running")
    )
    harness.wait(HOUR)
    harness.do(harness.cloud.delete(old.provider_id))
    harness.wait(HOUR)
    harness.do(harness.cloud.delete(recent.provider_id))
    harness.wait(HOUR)
    billing = harness.ec2.billing
    before = billing.cost(harness.now), billing.price_per_hour(), billing.instance_count

    forgotten = billing.forget_terminated(harness.now - timedelta(hours=1, minutes=30))

    assert forgotten == 1
    assert [launch.claim for launch in billing.launches] == ["recent", "running"]
    assert (billing.cost(harness.now), billing.price_per_hour(), billing.instance_count) == before


def test_an_instance_can_be_made_never_to_run_or_never_to_register() -> None:
    harness = Ec2Harness()
    harness.ec2.fail_next_launches(LaunchFailure.NEVER_RUNS)
    harness.ec2.fail_next_launches(LaunchFailure.NEVER_REGISTERS)

    stuck, mute, fine = (
        harness.do(harness.cloud.create(a_claim(name))) for name in ("stuck", "mute", "fine")
    )
    harness.wait(600)

    assert state_of(harness, stuck) is InstanceState.PENDING
    assert state_of(harness, mute) is InstanceState.RUNNING
    assert [instance.provider_id for instance in harness.booted] == [fine.provider_id]
    harness.do(harness.cloud.delete(stuck.provider_id))
    harness.wait(3)
    assert state_of(harness, stuck) is None


def test_a_spot_interruption_notice_comes_two_minutes_ahead() -> None:
    harness = Ec2Harness()
    launched = harness.do(harness.cloud.create(a_claim()))
    harness.wait(60)

    instance_id = launched.provider_id.rpartition("/")[2]
    harness.ec2.interrupt(instance_id)
    harness.wait(0)
    (warning,) = drain(harness)
    harness.wait(INTERRUPTION_NOTICE.total_seconds() - 1)
    assert state_of(harness, launched) is InstanceState.RUNNING
    harness.wait(1)

    assert (warning.kind, warning.instance_ids) == (InterruptionKind.SPOT_INTERRUPTED, (instance_id,))
    assert state_of(harness, launched) is InstanceState.SHUTTING_DOWN
    harness.wait(3)
    assert harness.terminated == [launched.provider_id]


def test_a_rebalance_recommendation_can_precede_the_interruption_notice() -> None:
    harness = Ec2Harness()
    launched = harness.do(harness.cloud.create(a_claim()))

    harness.ec2.interrupt(launched.provider_id.rpartition("/")[2], recommended=timedelta(minutes=1))

    assert kinds(drain(harness)) == [InterruptionKind.REBALANCE_RECOMMENDATION]
    harness.wait(60)
    assert kinds(drain(harness)) == [InterruptionKind.SPOT_INTERRUPTED]


def test_an_instance_deleted_in_time_is_not_interrupted() -> None:
    harness = Ec2Harness()
    launched = harness.do(harness.cloud.create(a_claim()))
    harness.ec2.interrupt(launched.provider_id.rpartition("/")[2])
    harness.wait(30)

    harness.do(harness.cloud.delete(launched.provider_id))
    harness.wait(600)

    assert harness.terminated == [launched.provider_id]


def test_long_polling_waits_for_a_message_up_to_a_limit() -> None:
    harness = Ec2Harness()
    launched = harness.do(harness.cloud.create(a_claim()))

    received = harness.begin(harness.interruptions.receive())
    harness.wait(5)
    assert received == []
    harness.ec2.recommend_rebalance(launched.provider_id.rpartition("/")[2])
    harness.wait(0)
    assert len(received) == 1

    drain(harness)
    harness.wait(VISIBILITY.total_seconds())
    drain(harness)
    before = harness.now
    assert harness.do(harness.interruptions.receive()) == []
    assert harness.now == before + MAX_POLL


def test_a_message_that_is_not_deleted_is_delivered_again_even_to_another_process() -> None:
    harness = Ec2Harness()
    launched = harness.do(harness.cloud.create(a_claim()))
    harness.ec2.recommend_rebalance(launched.provider_id.rpartition("/")[2])
    first = harness.do(harness.interruptions.receive())

    harness.loop.stop()
    harness.start_process()
    before = harness.now
    second = harness.do(harness.interruptions.receive())

    assert second == first
    assert harness.now == before + VISIBILITY
    harness.do(harness.interruptions.delete(second[0]))
    assert harness.do(harness.interruptions.receive()) == []


def test_a_message_that_is_not_received_expires_after_five_minutes() -> None:
    harness = Ec2Harness()
    launched = harness.do(harness.cloud.create(a_claim()))
    harness.ec2.recommend_rebalance(launched.provider_id.rpartition("/")[2])

    harness.wait(301)

    assert harness.do(harness.interruptions.receive()) == []


def test_calls_have_latency_and_take_effect_halfway() -> None:
    harness = Ec2Harness(latencies=CloudLatencies())
    before = harness.now

    launched = harness.begin(harness.cloud.create(a_claim()))
    harness.wait(0.4)
    assert len(harness.ec2.billing.launches) == 1
    assert not launched
    harness.wait(0.4)

    assert isinstance(launched[0], Instance)
    assert launched[0].launch_time == before + timedelta(seconds=0.4)


def test_a_call_of_a_killed_process_may_take_effect_without_a_response() -> None:
    harness = Ec2Harness(latencies=CloudLatencies())
    outcomes = harness.begin(harness.cloud.create(a_claim()))
    harness.wait(0.5)

    harness.loop.stop()
    harness.wait(60)
    harness.start_process()

    assert outcomes == []
    (left,) = harness.do(harness.cloud.list())
    assert left.nodeclaim == "claim"
    assert len(harness.booted) == 1


def test_throttled_calls_are_retried_by_the_client() -> None:
    harness = Ec2Harness(rates={Operation.CREATE_FLEET: Rate(per_second=1, burst=2)})

    calls = [harness.begin(harness.cloud.create(a_claim(f"claim-{n}"))) for n in range(6)]
    harness.wait(0)
    at_once = sum(1 for call in calls if call)
    harness.wait(10)

    launched = [call[0] for call in calls if isinstance(call[0], Instance)]
    rejected = [call[0] for call in calls if isinstance(call[0], CloudError)]
    assert at_once == 2
    assert len(launched) == 4 + 1
    assert [getattr(error, "reason", "") for error in rejected] == ["RequestLimitExceeded"]


def test_an_injected_error_fails_exactly_the_calls_it_names() -> None:
    harness = Ec2Harness()
    harness.ec2.error_injector.inject(
        InjectedError(operation=Operation.DESCRIBE_INSTANCES, nth=2, times=2, code="InternalError")
    )

    def works() -> bool:
        try:
            harness.do(harness.cloud.list())
        except CloudError:
            return False
        return True

    assert [works() for _ in range(5)] == [True, False, False, True, True]
    assert harness.do(harness.cloud.create(a_claim())).capacity_type == SPOT


def test_client_tokens_are_dropped_a_day_after_their_instances_have_terminated() -> None:
    harness = Ec2Harness()
    for number in range(250):
        launched = harness.do(harness.cloud.create(a_claim(f"old-{number}")))
        harness.wait(10)
        harness.do(harness.cloud.delete(launched.provider_id))
    running = harness.do(harness.cloud.create(a_claim("running")))
    harness.wait(23 * HOUR)
    harness.do(harness.cloud.create(a_claim("within-a-day")))
    known = harness.ec2.find_by_token("uid-of-old-249") is not None
    harness.wait(2 * HOUR)
    harness.do(harness.cloud.create(a_claim("later")))

    assert known
    assert harness.ec2.find_by_token("uid-of-old-249") is None
    assert harness.do(harness.cloud.create(a_claim("running"))).provider_id == running.provider_id
