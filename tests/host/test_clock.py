"""Real time passes."""

from dovetail.host.clock import SystemClock


def test_sleep_takes_at_least_the_given_time() -> None:
    clock = SystemClock()
    before = clock.seconds()

    clock.sleep(0.02)

    assert clock.seconds() - before >= 0.02


def test_a_time_in_the_past_is_not_waited_for() -> None:
    clock = SystemClock()
    before = clock.seconds()

    clock.sleep(-5)

    assert clock.seconds() - before < 1
