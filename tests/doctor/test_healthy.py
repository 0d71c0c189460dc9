"""A set-up with nothing wrong."""

from dovetail.doctor.check import examined
from dovetail.doctor.checks.registry import CHECKS
from dovetail.doctor.facts import Facts


def test_nothing_is_found_in_a_healthy_cluster_and_everything_was_looked_at(
    healthy: Facts,
) -> None:
    report = examined(healthy, CHECKS)

    assert report.findings == ()
    assert report.skipped == ()
    assert len(report.checked) == len(CHECKS)
