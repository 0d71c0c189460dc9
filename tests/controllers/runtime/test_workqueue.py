"""Work queue: a key is processed once at a time, none is lost, failures back off."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dovetail.controllers.runtime.workqueue import Backoff, WorkQueue
from tests.support.simulator.api_server import START

SECOND = timedelta(seconds=1)


def a_queue() -> WorkQueue[str]:
    return WorkQueue(Backoff())


def test_earlier_due_time_of_a_key_wins() -> None:
    queue = a_queue()

    queue.add("a", START + 5 * SECOND)
    queue.add("a", START + SECOND)
    queue.add("a", START + 9 * SECOND)

    assert queue.next_at() == START + SECOND
    assert queue.get(START + SECOND) == "a"
    queue.done("a")
    assert queue.get(START + 60 * SECOND) is None


def test_keys_are_returned_when_due_in_the_order_they_were_added() -> None:
    queue = a_queue()
    for key in ("b", "a"):
        queue.add(key, START)
    queue.add("late", START + SECOND)

    keys = [queue.get(START), queue.get(START), queue.get(START)]

    assert keys == ["b", "a", None]


def test_key_added_while_processing_is_due_again_when_done() -> None:
    queue = a_queue()
    queue.add("a", START)
    queue.get(START)

    queue.add("a", START)
    meanwhile = queue.get(START)
    queue.done("a")

    assert meanwhile is None
    assert queue.get(START) == "a"


def test_key_added_while_processing_is_due_before_its_requeue_time() -> None:
    queue = a_queue()
    queue.add("a", START)
    queue.get(START)
    queue.add("a", START)

    queue.done("a", requeue_at=START + 60 * SECOND)

    assert queue.next_at() == START


def test_backoff_doubles_up_to_a_limit_and_success_resets_it() -> None:
    queue = a_queue()
    delays = []
    now = START

    for _ in range(9):
        queue.add("a", now)
        queue.get(now)
        delays.append(queue.requeue_with_backoff("a", now).total_seconds())
        now += timedelta(seconds=delays[-1])
    queue.get(now)
    queue.done("a")
    queue.add("a", now)
    queue.get(now)

    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10]
    assert queue.requeue_with_backoff("a", now).total_seconds() == 0.1


def test_key_added_while_processing_does_not_shorten_the_backoff() -> None:
    queue = a_queue()
    queue.add("a", START)
    queue.get(START)
    queue.add("a", START)

    delay = queue.requeue_with_backoff("a", START)

    assert queue.next_at() == START + delay


@given(st.integers(1, 10**6))
def test_backoff_never_exceeds_its_limit_nor_shrinks(failures: int) -> None:
    backoff = Backoff()

    assert backoff.after(failures) <= backoff.after(failures + 1) <= backoff.limit


class WorkQueueRules(RuleBasedStateMachine):
    """Random operations, compared with a plain model of due times."""

    keys = st.sampled_from("abc")
    delays = st.integers(0, 5)

    def __init__(self) -> None:
        super().__init__()
        self.queue = a_queue()
        self.now = START
        self.processing: set[str] = set()
        self.due: dict[str, datetime] = {}
        """Key → when it is due, unless it is being processed."""

    @rule(key=keys, delay=delays)
    def add(self, key: str, delay: int) -> None:
        at = self.now + delay * SECOND
        self.queue.add(key, at)
        self.due[key] = min(at, self.due.get(key, at))

    @rule()
    def get(self) -> None:
        key = self.queue.get(self.now)
        if key is not None:
            assert key not in self.processing
            assert self.due.pop(key) <= self.now
            self.processing.add(key)

    @rule(key=keys, delay=st.none() | delays)
    def done(self, key: str, delay: int | None) -> None:
        if key in self.processing:
            self.processing.remove(key)
            at = None if delay is None else self.now + delay * SECOND
            self.queue.done(key, requeue_at=at)
            if at is not None:
                self.due[key] = min(at, self.due.get(key, at))

    @rule(key=keys)
    def fail(self, key: str) -> None:
        if key in self.processing:
            self.processing.remove(key)
            self.due[key] = self.now + self.queue.requeue_with_backoff(key, self.now)

    @rule(delay=delays)
    def time_passes(self, delay: int) -> None:
        self.now += delay * SECOND

    @invariant()
    def next_key_is_the_first_due(self) -> None:
        due = [at for key, at in self.due.items() if key not in self.processing]
        assert self.queue.next_at() == min(due, default=None)
        assert len(self.queue) == len(self.processing | self.due.keys())


TestWorkQueue = WorkQueueRules.TestCase
