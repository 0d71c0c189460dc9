"""The work queue: a key is in one hand, nothing is lost, who fails waits."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dovetail.controllers.runtime.workqueue import Backoff, WorkQueue
from tests.support.cluster import START

SECOND = timedelta(seconds=1)


def a_queue() -> WorkQueue[str]:
    return WorkQueue(Backoff())


def test_of_two_requests_for_a_key_the_earlier_stands() -> None:
    queue = a_queue()

    queue.add("a", START + 5 * SECOND)
    queue.add("a", START + SECOND)
    queue.add("a", START + 9 * SECOND)

    assert queue.next_at() == START + SECOND
    assert queue.take(START + SECOND) == "a"
    queue.done("a")
    assert queue.take(START + 60 * SECOND) is None


def test_keys_come_when_they_are_due_and_in_the_order_asked_for() -> None:
    queue = a_queue()
    for key in ("b", "a"):
        queue.add(key, START)
    queue.add("late", START + SECOND)

    taken = [queue.take(START), queue.take(START), queue.take(START)]

    assert taken == ["b", "a", None]


def test_a_key_asked_for_while_it_is_worked_on_comes_again_afterwards() -> None:
    queue = a_queue()
    queue.add("a", START)
    queue.take(START)

    queue.add("a", START)
    meanwhile = queue.take(START)
    queue.done("a")

    assert meanwhile is None
    assert queue.take(START) == "a"


def test_news_is_not_lost_to_a_later_look_that_was_asked_for() -> None:
    queue = a_queue()
    queue.add("a", START)
    queue.take(START)
    queue.add("a", START)

    queue.done("a", again_at=START + 60 * SECOND)

    assert queue.next_at() == START


def test_who_fails_waits_twice_as_long_each_time_up_to_a_limit_and_success_forgives() -> None:
    queue = a_queue()
    waits = []
    now = START

    for _ in range(9):
        queue.add("a", now)
        queue.take(now)
        waits.append(queue.failed("a", now).total_seconds())
        now += timedelta(seconds=waits[-1])
    queue.take(now)
    queue.done("a")
    queue.add("a", now)
    queue.take(now)

    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10]
    assert queue.failed("a", now).total_seconds() == 0.1


def test_news_that_came_while_a_key_failed_does_not_shorten_its_wait() -> None:
    queue = a_queue()
    queue.add("a", START)
    queue.take(START)
    queue.add("a", START)

    wait = queue.failed("a", START)

    assert queue.next_at() == START + wait


@given(st.integers(1, 10**6))
def test_back_off_never_exceeds_its_limit_nor_shrinks(failures: int) -> None:
    backoff = Backoff()

    assert backoff.after(failures) <= backoff.after(failures + 1) <= backoff.most


class Hands(RuleBasedStateMachine):
    """Random work: compared with a plain account of who is due when."""

    keys = st.sampled_from("abc")
    waits = st.integers(0, 5)

    def __init__(self) -> None:
        super().__init__()
        self.queue = a_queue()
        self.now = START
        self.working: set[str] = set()
        self.owed: dict[str, datetime] = {}
        """Key → until when it must have come at the latest, unless it is in a hand."""

    @rule(key=keys, wait=waits)
    def ask(self, key: str, wait: int) -> None:
        at = self.now + wait * SECOND
        self.queue.add(key, at)
        self.owed[key] = min(at, self.owed.get(key, at))

    @rule()
    def take(self) -> None:
        key = self.queue.take(self.now)
        if key is not None:
            assert key not in self.working
            assert self.owed.pop(key) <= self.now
            self.working.add(key)

    @rule(key=keys, again=st.none() | waits)
    def finish(self, key: str, again: int | None) -> None:
        if key in self.working:
            self.working.remove(key)
            at = None if again is None else self.now + again * SECOND
            self.queue.done(key, again_at=at)
            if at is not None:
                self.owed[key] = min(at, self.owed.get(key, at))

    @rule(key=keys)
    def fail(self, key: str) -> None:
        if key in self.working:
            self.working.remove(key)
            self.owed[key] = self.now + self.queue.failed(key, self.now)

    @rule(wait=waits)
    def time_passes(self, wait: int) -> None:
        self.now += wait * SECOND

    @invariant()
    def the_next_is_who_is_owed_first(self) -> None:
        due = [at for key, at in self.owed.items() if key not in self.working]
        assert self.queue.next_at() == min(due, default=None)
        assert len(self.queue) == len(self.working | self.owed.keys())


TestHands = Hands.TestCase
