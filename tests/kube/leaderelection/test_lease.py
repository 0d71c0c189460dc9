"""Never two leaders, whatever clocks, networks and pauses do."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.kube.leaderelection.lease import GIVEN_UP, Candidate, Move, Record, Timing
from dovetail.simulator.randomness import SeededChance

TIMING = Timing()


class Lease:
    """The lease in the API server: a write with an old revision is refused."""

    def __init__(self) -> None:
        self.record: Record | None = None
        self._revision = 0

    def write(self, holder: str, *, onto: Record | None) -> Record | None:
        if onto != self.record:
            return None
        self._revision += 1
        duration = 15.0 if holder else GIVEN_UP
        self.record = Record(holder=holder, duration=duration, revision=str(self._revision))
        return self.record

    def meddle(self, dice: SeededChance) -> None:
        """Delete or empty the lease, or take it away from its holder, by hand."""
        if self.record is None:
            return
        self._revision += 1
        holder = "" if dice.fraction() < 0.5 else "a hand"
        emptied = Record(holder=holder, duration=15.0, revision=str(self._revision))
        self.record = None if dice.fraction() < 0.5 else emptied


class Clock(NamedTuple):
    """A machine's clock: from wherever it started, a little too fast or too slow."""

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
    """Until that is heard."""
    writing: float
    """Until the write reaches the server."""
    answering: float
    is_answered: bool
    gives_up: bool


class Replica:
    """Does what an elector does, as slowly as the test says."""

    def __init__(self, name: str, clock: Clock, tries: Sequence[Try]) -> None:
        self.candidate = Candidate(name, TIMING)
        self._clock = clock
        self._tries = tries

    def leads(self, moment: float) -> bool:
        return self.candidate.leads(now=self._clock.at(moment))

    def live(self, lease: Lease) -> Generator[float, float, None]:
        """Yield how long each step takes; is sent the moment after it."""
        candidate, clock = self.candidate, self._clock
        for one in self._tries:
            now = yield one.rest
            if one.gives_up and self.leads(now):
                candidate.resign()
                yield one.writing
                lease.write("", onto=candidate.seen)
                return
            yield one.asking
            seen = lease.record
            now = yield one.reading
            candidate.saw(seen, now=clock.at(now))
            began = clock.at(now)
            if candidate.move(now=began) is Move.WAIT:
                continue
            yield one.writing
            written = lease.write(candidate.me, onto=seen)
            now = yield one.answering
            if written is not None and one.is_answered:
                candidate.wrote(written, began=began, now=clock.at(now))


LONG = (5.0, 9.9, 10.1, 15.1, 17.0, 30.0)


def a_delay(dice: SeededChance, usual: float) -> float:
    """Mostly as usual; sometimes the process or the network stands still."""
    if dice.fraction() < 0.06:
        return LONG[int(dice.fraction() * len(LONG))]
    return usual * (0.5 + dice.fraction())


def a_life(dice: SeededChance) -> tuple[Clock, list[Try]]:
    clock = Clock(offset=2e6 * dice.fraction() - 1e6, rate=0.85 + 0.3 * dice.fraction())
    tries = [
        Try(
            rest=a_delay(dice, 2.0),
            asking=a_delay(dice, 0.05),
            reading=a_delay(dice, 0.05),
            writing=a_delay(dice, 0.05),
            answering=a_delay(dice, 0.05),
            is_answered=dice.fraction() < 0.9,
            gives_up=dice.fraction() < 0.02,
        )
        for _ in range(60)
    ]
    return clock, tries


def moments(lease: Lease, replicas: Sequence[Replica]) -> Iterator[float]:
    """Let replicas live beside each other; hand out each moment in which one has done something."""
    running = [one.live(lease) for one in replicas]
    coming = [(next(one, 0.0), number) for number, one in enumerate(running)]
    heapify(coming)
    while coming:
        now, number = heappop(coming)
        with suppress(StopIteration):
            heappush(coming, (now + running[number].send(now), number))
        yield now


@given(st.integers(0, 1 << 32))
def test_at_no_moment_do_two_replicas_lead(seed: int) -> None:
    lease, dice = Lease(), SeededChance(seed)
    replicas = [Replica(f"replica-{number}", *a_life(dice)) for number in range(3)]

    for now in moments(lease, replicas):
        assert sum(one.leads(now) for one in replicas) <= 1


@given(st.integers(0, 1 << 32))
def test_nor_do_they_when_hands_meddle_with_a_lease_that_all_have_seen(seed: int) -> None:
    lease, dice = Lease(), SeededChance(seed)
    replicas = [Replica(f"replica-{number}", *a_life(dice)) for number in range(3)]

    for now in moments(lease, replicas):
        if dice.fraction() < 0.05 and all(one.candidate.seen for one in replicas):
            lease.meddle(dice)

        assert sum(one.leads(now) for one in replicas) <= 1


def a_leader(*, at: float = 100.0) -> tuple[Candidate, Record]:
    leader = Candidate("me")
    mine = Record(holder="me", duration=15, revision="1")
    leader.saw(None, now=at)
    leader.wrote(mine, began=at, now=at)
    return leader, mine


def test_a_free_lease_is_taken_at_once() -> None:
    newcomer = Candidate("me")
    newcomer.saw(Record(holder="", revision="7"), now=5.0)

    assert newcomer.move(now=5.0) is Move.TAKE


def test_where_there_never_was_a_lease_one_is_made_at_once() -> None:
    newcomer = Candidate("me")
    newcomer.saw(None, now=5.0)

    assert newcomer.move(now=5.0) is Move.CREATE


@pytest.mark.parametrize(
    ("left", "then"),
    [(None, Move.CREATE), (Record(holder="", duration=15, revision="8"), Move.TAKE)],
)
def test_a_lease_that_a_hand_deleted_or_emptied_is_waited_for_as_if_it_were_held(
    left: Record | None, then: Move
) -> None:
    """Its holder has not noticed yet."""
    candidate = Candidate("me")
    candidate.saw(Record(holder="other", duration=15, revision="7"), now=5.0)
    candidate.saw(left, now=9.0)
    candidate.saw(left, now=20.0)

    assert candidate.move(now=24.0) is Move.WAIT
    assert candidate.move(now=24.1) is then


def test_a_lease_is_taken_once_it_was_seen_unchanged_for_all_of_its_duration() -> None:
    newcomer = Candidate("me")
    theirs = Record(holder="other", duration=15, revision="7")
    newcomer.saw(theirs, now=5.0)
    newcomer.saw(theirs, now=19.0)

    assert newcomer.move(now=20.0) is Move.WAIT
    assert newcomer.move(now=20.1) is Move.TAKE


def test_every_renewal_that_is_seen_begins_the_wait_anew() -> None:
    newcomer = Candidate("me")
    newcomer.saw(Record(holder="other", duration=15, revision="7"), now=5.0)
    newcomer.saw(Record(holder="other", duration=15, revision="8"), now=19.0)

    assert newcomer.move(now=33.0) is Move.WAIT


def test_a_holder_that_wants_longer_is_given_longer() -> None:
    newcomer = Candidate("me")
    newcomer.saw(Record(holder="other", duration=60, revision="7"), now=0.0)

    assert newcomer.move(now=59.0) is Move.WAIT


@pytest.mark.parametrize(("later", "leads"), [(9.9, True), (10.0, False), (1e6, False)])
def test_a_leader_that_did_not_renew_in_time_leads_no_more(later: float, leads: bool) -> None:
    leader, _ = a_leader(at=100.0)

    assert leader.leads(now=100.0 + later) is leads


def test_a_renewal_counts_from_when_it_was_begun_not_from_its_answer() -> None:
    leader, mine = a_leader(at=100.0)
    leader.wrote(mine, began=105.0, now=109.0)

    assert leader.leads(now=114.9)
    assert not leader.leads(now=115.0)


def test_who_was_fenced_once_stays_fenced_although_a_later_renewal_succeeds() -> None:
    leader, mine = a_leader(at=100.0)
    leader.wrote(mine, began=111.0, now=111.1)

    assert not leader.leads(now=111.2)
    assert leader.has_lost(now=111.2)


def test_a_leader_that_sees_another_holder_leads_no_more() -> None:
    leader, _ = a_leader(at=100.0)
    leader.saw(Record(holder="other", duration=15, revision="2"), now=101.0)

    assert not leader.leads(now=101.0)
    assert leader.has_lost(now=101.0)
