"""Real time passes."""

from dovetail.host.clock import RealClock


def test_sleeping_takes_at_least_as_long_as_asked() -> None:
    clock = RealClock()
    before = clock.seconds()

    clock.sleep(0.02)

    assert clock.seconds() - before >= 0.02


def test_a_moment_that_has_passed_is_not_waited_for() -> None:
    clock = RealClock()
    before = clock.seconds()

    clock.sleep(-5)

    assert clock.seconds() - before < 1
