"""The window in which pods gather: P2, P3, P4."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from dovetail.controllers.provisioning.batch_window import Batch, Windows
from tests.support.cluster import START

WINDOWS = Windows(idle=timedelta(seconds=5), longest=timedelta(seconds=20))


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_nobody_waits_in_a_window_that_nobody_opened() -> None:
    assert Batch(WINDOWS).closes_at() is None


def test_the_same_pod_again_does_not_make_the_others_wait() -> None:
    batch = Batch(WINDOWS)

    batch.add("a", at(0))
    batch.add("a", at(3))

    assert batch.closes_at() == at(5)


def test_another_pod_makes_the_window_wait_for_more() -> None:
    batch = Batch(WINDOWS)

    batch.add("a", at(0))
    batch.add("b", at(3))

    assert batch.closes_at() == at(8)


def test_who_was_decided_about_may_open_the_next_window() -> None:
    batch = Batch(WINDOWS)
    batch.add("a", at(0))

    batch.close()
    batch.add("a", at(6))

    assert batch.closes_at() == at(11)


@given(st.lists(st.floats(0, 30), min_size=1).map(sorted))
def test_no_window_is_longer_than_the_longest(times: list[float]) -> None:
    batch = Batch(WINDOWS)

    for number, time in enumerate(times):
        batch.add(number, at(time))

    closes = batch.closes_at()
    assert closes is not None
    assert closes <= at(times[0]) + WINDOWS.longest


def test_whoever_lost_what_it_got_hurries_the_window_but_not_twice_in_a_row() -> None:
    batch = Batch(WINDOWS)
    batch.add("a", at(0))

    batch.hurry("b", at(1))
    hurried = batch.closes_at()
    batch.close()
    batch.hurry("c", at(2))

    assert hurried == at(1.1)
    assert batch.closes_at() == at(7)
