"""A scale-up while kube-scheduler lags behind the nodes."""

from pathlib import Path

import pytest

from tests.live.chaos.scale import ScaleSettings, run_scale


@pytest.mark.slow
@pytest.mark.usefixtures("controlplane_binary_path")
def test_pods_of_a_scale_up_are_planned_once_and_within_five_seconds(tmp_path: Path) -> None:
    # Marking 200 pods takes kube-scheduler some ten seconds, and binding them as long again.
    settings = ScaleSettings(pods=200, scheduler_qps=20, limit=5, late_share=0.1)

    report = run_scale(tmp_path, settings, lambda _: None)

    assert report.violations == []
    assert report.bound == 200
    assert report.passes > 1
    assert report.instances == report.nodeclaims == report.planned_nodes
