"""Never two leaders, whatever clocks, networks and pauses do."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.kube.leaderelection.lease import (
    RELEASED_DURATION,
    LeaseAction,
    LeaseCandidate,
    LeaseRecord,
    LeaseTiming,
    scale_timing,
)
from dovetail.simulator.environment import SeededRandomSource

TIMING = LeaseTiming()


class Lease:
    """The lease in the API server: a write with an old revision is refused."""

    def __init__(self) -> None:
        self.record: LeaseRecord | None = None
        self._revision = 0

    def write(
        self, holder: str, *, onto: LeaseRecord | None, timing: LeaseTiming = TIMING
    ) -> LeaseRecord | None:
        if onto != self.record:
            return None
        self._revision += 1
        duration = timing.lease_duration if holder else RELEASED_DURATION
        self.record = LeaseRecord(holder=holder, duration=duration, resource_version=str(self._revision))
        return self.record

    def meddle(self, random: SeededRandomSource) -> None:
        """Delete or empty the lease, or take it away from its holder, by hand."""
        if self.record is None:
            return
        self._revision += 1
        holder = "" if random.random() < 0.5 else "a hand"
        emptied = LeaseRecord(holder=holder, duration=15.0, resource_version=str(self._revision))
        self.record = None if random.random() < 0.5 else emptied


class Clock(NamedTuple):
    """Clock of a host: any start, a little too fast or too slow."""

    offset: float
    rate: float

    def at(self, moment: float) -> float:
        return self.offset + self.rate * moment


class Try(NamedTuple):
    """One attempt of one replica, and how slowly it goes; a pause can fall anywhere."""

    rest: float
    asking: float
    """Until the server reads it out."""
    reading: float
    """Until the response arrives."""
    writing: float
    """Until the write reaches the server."""
    answering: float
    is_answered: bool
    gives_up: bool


class Replica:
    """Does what an elector does, as slowly as the test says."""

    def __init__(self, name: str, clock: Clock, tries: Sequence[Try], timing: LeaseTiming = TIMING) -> None:
        self.candidate = LeaseCandidate(name, timing)
        self._timing = timing
        self._clock = clock
        self._tries = tries

    def leads(self, moment: float) -> bool:
        return self.candidate.is_leader(now=self._clock.at(moment))

    def live(self, lease: Lease) -> Generator[float, float, None]:
        """Yield how long each step takes; is sent the moment after it."""
        candidate, clock = self.candidate, self._clock
        for attempt in self._tries:
            now = yield attempt.rest
            if attempt.gives_up and self.leads(now):
                candidate.resign()
                yield attempt.writing
                lease.write("", onto=candidate.observed)
                return
            yield attempt.asking
            observed = lease.record
            now = yield attempt.reading
            candidate.observe(observed, now=clock.at(now))
            began = clock.at(now)
            if candidate.next_action(now=began) is LeaseAction.WAIT:
                continue
            yield attempt.writing
            written = lease.write(candidate.identity, onto=observed, timing=self._timing)
            now = yield attempt.answering
            if written is not None and attempt.is_answered:
                candidate.record_write(written, started=began, now=clock.at(now))


LONG = (5.0, 9.9, 10.1, 15.1, 17.0, 30.0)


def a_delay(random: SeededRandomSource, usual: float) -> float:
    """Mostly as usual; sometimes the process or the network stands still."""
    if random.random() < 0.06:
        return LONG[int(random.random() * len(LONG))]
    return usual * (0.5 + random.random())


def run_lifecycles(random: SeededRandomSource) -> tuple[Clock, list[Try]]:
    clock = Clock(offset=2e6 * random.random() - 1e6, rate=0.85 + 0.3 * random.random())
    tries = [
        Try(
            rest=a_delay(random, 2.0),
            asking=a_delay(random, 0.05),
            reading=a_delay(random, 0.05),
            writing=a_delay(random, 0.05),
            answering=a_delay(random, 0.05),
            is_answered=random.random() < 0.9,
            gives_up=random.random() < 0.02,
        )
        for _ in range(60)
    ]
    return clock, tries


def moments(lease: Lease, replicas: Sequence[Replica]) -> Iterator[float]:
    """Run replicas concurrently; yield each time at which one did something."""
    running = [replica.live(lease) for replica in replicas]
    coming = [(next(entry, 0.0), number) for number, entry in enumerate(running)]
    heapify(coming)
    while coming:
        now, number = heappop(coming)
        with suppress(StopIteration):
            heappush(coming, (now + running[number].send(now), number))
        yield now


@given(st.integers(0, 1 << 32))
def test_at_no_moment_do_two_replicas_lead(seed: int) -> None:
    lease, random = Lease(), SeededRandomSource(seed)
    replicas = [Replica(f"replica-{number}", *run_lifecycles(random)) for number in range(3)]

    for now in moments(lease, replicas):
        assert sum(replica.leads(now) for replica in replicas) <= 1


@given(st.integers(0, 1 << 32), st.lists(st.integers(5, 60), min_size=3, max_size=3))
def test_at_no_moment_do_two_replicas_lead_whatever_the_durations_of_their_leases(
    seed: int, durations: list[int]
) -> None:
    lease, random = Lease(), SeededRandomSource(seed)
    replicas = [
        Replica(f"replica-{number}", *run_lifecycles(random), scale_timing(duration))
        for number, duration in enumerate(durations)
    ]

    for now in moments(lease, replicas):
        assert sum(replica.leads(now) for replica in replicas) <= 1


@given(st.integers(0, 1 << 32))
def test_at_no_moment_do_two_replicas_lead_if_the_lease_is_edited(seed: int) -> None:
    lease, random = Lease(), SeededRandomSource(seed)
    replicas = [Replica(f"replica-{number}", *run_lifecycles(random)) for number in range(3)]

    for now in moments(lease, replicas):
        if random.random() < 0.05 and all(replica.candidate.observed for replica in replicas):
            lease.meddle(random)

        assert sum(replica.leads(now) for replica in replicas) <= 1


def a_leader(*, at: float = 100.0) -> tuple[LeaseCandidate, LeaseRecord]:
    leader = LeaseCandidate("me")
    mine = LeaseRecord(holder="me", duration=15, resource_version="1")
    leader.observe(None, now=at)
    leader.record_write(mine, started=at, now=at)
    return leader, mine


def test_a_released_lease_is_acquired_at_once() -> None:
    newcomer = LeaseCandidate("me")
    newcomer.observe(LeaseRecord(holder="", resource_version="7"), now=5.0)

    assert newcomer.next_action(now=5.0) is LeaseAction.ACQUIRE


def test_a_missing_lease_is_created_at_once() -> None:
    newcomer = LeaseCandidate("me")
    newcomer.observe(None, now=5.0)

    assert newcomer.next_action(now=5.0) is LeaseAction.CREATE


@pytest.mark.parametrize(
    ("left", "then"),
    [
        (None, LeaseAction.CREATE),
        (LeaseRecord(holder="", duration=15, resource_version="8"), LeaseAction.ACQUIRE),
    ],
)
def test_a_deleted_or_cleared_lease_is_waited_for_like_a_held_one(
    left: LeaseRecord | None, then: LeaseAction
) -> None:
    """Its holder has not noticed yet."""
    candidate = LeaseCandidate("me")
    candidate.observe(LeaseRecord(holder="other", duration=15, resource_version="7"), now=5.0)
    candidate.observe(left, now=9.0)
    candidate.observe(left, now=20.0)

    assert candidate.next_action(now=24.0) is LeaseAction.WAIT
    assert candidate.next_action(now=24.1) is then


def test_a_lease_is_acquired_after_its_whole_duration_without_change() -> None:
    newcomer = LeaseCandidate("me")
    theirs = LeaseRecord(holder="other", duration=15, resource_version="7")
    newcomer.observe(theirs, now=5.0)
    newcomer.observe(theirs, now=19.0)

    assert newcomer.next_action(now=20.0) is LeaseAction.WAIT
    assert newcomer.next_action(now=20.1) is LeaseAction.ACQUIRE


def test_every_observed_renewal_restarts_the_wait() -> None:
    newcomer = LeaseCandidate("me")
    newcomer.observe(LeaseRecord(holder="other", duration=15, resource_version="7"), now=5.0)
    newcomer.observe(LeaseRecord(holder="other", duration=15, resource_version="8"), now=19.0)

    assert newcomer.next_action(now=33.0) is LeaseAction.WAIT


def test_a_longer_lease_duration_of_the_holder_is_respected() -> None:
    newcomer = LeaseCandidate("me")
    newcomer.observe(LeaseRecord(holder="other", duration=60, resource_version="7"), now=0.0)

    assert newcomer.next_action(now=59.0) is LeaseAction.WAIT


@pytest.mark.parametrize(("later", "leads"), [(9.9, True), (10.0, False), (1e6, False)])
def test_a_leader_that_misses_the_renew_deadline_stops_leading(later: float, leads: bool) -> None:
    leader, _ = a_leader(at=100.0)

    assert leader.is_leader(now=100.0 + later) is leads


def test_a_renewal_counts_from_its_start_not_its_response() -> None:
    leader, mine = a_leader(at=100.0)
    leader.record_write(mine, started=105.0, now=109.0)

    assert leader.is_leader(now=114.9)
    assert not leader.is_leader(now=115.0)


def test_a_fenced_replica_stays_fenced_after_a_late_renewal() -> None:
    leader, mine = a_leader(at=100.0)
    leader.record_write(mine, started=111.0, now=111.1)

    assert not leader.is_leader(now=111.2)
    assert leader.has_lost(now=111.2)


def test_a_leader_that_observes_another_holder_stops_leading() -> None:
    leader, _ = a_leader(at=100.0)
    leader.observe(LeaseRecord(holder="other", duration=15, resource_version="2"), now=101.0)

    assert not leader.is_leader(now=101.0)
    assert leader.has_lost(now=101.0)


def test_a_lease_keeps_its_proportions_at_any_duration() -> None:
    assert scale_timing(15) == LeaseTiming()
    assert scale_timing(6) == LeaseTiming(lease_duration=6.0, renew_deadline=4.0, retry_period=0.8)
