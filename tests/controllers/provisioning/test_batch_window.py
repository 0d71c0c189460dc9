"""Batch window: P2, P3, P4 of the scheduling checklist."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from dovetail.controllers.provisioning.batch_window import Batch
from dovetail.model.settings import BatchSettings
from tests.support.simulator.api_server import START

WINDOWS = BatchSettings(idle_duration=timedelta(seconds=5), max_duration=timedelta(seconds=20))


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_new_batch_has_no_open_window() -> None:
    assert Batch(WINDOWS).closes_at() is None


def test_repeated_pod_does_not_extend_the_window() -> None:
    batch = Batch(WINDOWS)

    batch.add("a", at(0))
    batch.add("a", at(3))

    assert batch.closes_at() == at(5)


def test_another_pod_extends_the_window() -> None:
    batch = Batch(WINDOWS)

    batch.add("a", at(0))
    batch.add("b", at(3))

    assert batch.closes_at() == at(8)


def test_pod_of_a_closed_batch_can_open_the_next_window() -> None:
    batch = Batch(WINDOWS)
    batch.add("a", at(0))

    batch.close()
    batch.add("a", at(6))

    assert batch.closes_at() == at(11)


@given(st.lists(st.floats(0, 30), min_size=1).map(sorted))
def test_window_is_limited_by_the_maximum_duration(times: list[float]) -> None:
    batch = Batch(WINDOWS)

    for number, time in enumerate(times):
        batch.add(number, at(time))

    closes = batch.closes_at()
    assert closes is not None
    assert closes <= at(times[0]) + WINDOWS.max_duration


@given(st.lists(st.floats(0, 30), min_size=1).map(sorted))
def test_by_default_every_pod_is_planned_within_three_seconds(times: list[float]) -> None:
    batch = Batch(BatchSettings())
    waited = []
    opened: list[float] = []

    for number, time in enumerate([*times, 100]):
        closes = batch.closes_at()
        if closes is not None and closes <= at(time):
            waited += [closes - at(added) for added in opened]
            opened.clear()
            batch.close()
        batch.add(number, at(time))
        opened.append(time)

    assert len(waited) == len(times)
    assert max(waited) <= timedelta(seconds=3)


def test_expedited_item_shortens_the_window_once_per_idle_duration() -> None:
    batch = Batch(WINDOWS)
    batch.add("a", at(0))

    batch.expedite("b", at(1))
    expedited = batch.closes_at()
    batch.close()
    batch.expedite("c", at(2))

    assert expedited == at(1.1)
    assert batch.closes_at() == at(7)
