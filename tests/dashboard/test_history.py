"""History of totals for the timeline."""

from dovetail.dashboard.history import History
from tests.dashboard.views import view


def test_equal_levels_take_two_samples_however_long_they_last() -> None:
    history = History()

    for second in range(100):
        history.record(view(second, price=1.0))

    assert [sample.at % 100_000 for sample in history.samples] == [0, 99_000]


def test_replaced_sample_is_marked_so_that_a_browser_replaces_it_too() -> None:
    history = History()

    changes = [history.record(view(second, price=1.0)) for second in range(3)]

    assert [change.replaces_last for change in changes if change] == [False, False, True]


def test_a_change_of_the_price_is_a_new_sample() -> None:
    history = History()

    for second in range(4):
        history.record(view(second, price=float(second)))

    assert [sample.price for sample in history.samples] == [0, 1, 2, 3]


def test_a_document_of_the_same_instant_is_not_recorded_again() -> None:
    history = History()
    history.record(view(5))

    assert history.record(view(5)) is None


def test_history_is_bounded_and_keeps_its_beginning_and_all_evictions() -> None:
    history = History(max_samples=64)

    for second in range(1000):
        history.record(view(second, price=float(second), evictions=second // 2))

    assert len(history.samples) <= 64
    # The first sample of the history lies in its first tenth.
    assert history.samples[0].price < 100
    assert history.samples[-1].price == 999
    assert sum(sample.evictions for sample in history.samples) == 499


def test_sample_has_the_evictions_since_the_document_before_and_none_of_earlier_ones() -> None:
    history = History()

    for second, evictions in enumerate((7, 7, 9, 12)):
        history.record(view(second, price=float(second), evictions=evictions))

    assert [sample.evictions for sample in history.samples] == [0, 0, 2, 3]
