"""The launch path with throttling, lost responses and kills of the process.

``make chaos-aws`` runs ten simulated hours of the same.
"""

from datetime import timedelta

import msgspec
import pytest

from tests.support.chaos.run import run_chaos

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("aws_credentials")]


def test_no_instance_is_launched_twice_or_left_behind_whatever_is_lost_or_killed() -> None:
    report = run_chaos(timedelta(minutes=30), seed=4)

    assert report.violations == []
    assert report.duplicates == 0
    assert report.launches == report.nodeclaims_with_instance > 50
    assert report.kills > 30
    assert report.throttled > report.lost_responses > 100
    assert report.no_capacity_errors > 10


def test_a_run_is_repeatable() -> None:
    first, second = (run_chaos(timedelta(minutes=3), seed=5) for _ in range(2))

    assert msgspec.to_builtins(first) == msgspec.to_builtins(second)
