"""The chaos run reports violations that are planted in it."""

from pathlib import Path

import pytest

from tests.live.chaos.planted_violations import PLANTED
from tests.live.chaos.run import ChaosSettings, run_chaos


@pytest.mark.slow
@pytest.mark.usefixtures("controlplane_binary_path")
def test_a_chaos_run_reports_every_violation_that_is_planted_in_it(tmp_path: Path) -> None:
    settings = ChaosSettings(
        minutes=0, planted=tuple(PLANTED), attacks=frozenset(), settle_seconds=20, slack=10
    )

    report = run_chaos(tmp_path, settings, lambda _: None)

    assert {figure.name for figure in report.broken} == {
        "NodeClaims with more than one instance",
        "pods with a second NodeClaim while the first was starting",
        "instances, NodeClaims or nodes left at the end of a round",
        "samples below a PodDisruptionBudget",
        "writes of a replica that did not hold the lease",
        "unexpected exits",
    }
