"""Nodes for pods of a HorizontalPodAutoscaler, from 4 pods to 100 and back."""

from pathlib import Path

import pytest

from tests.live.chip import run_chip


@pytest.mark.usefixtures("controlplane_binary_path")
def test_nodes_follow_an_autoscaler_from_4_pods_to_100_and_back(tmp_path: Path) -> None:
    report = run_chip(tmp_path, lambda _: None)

    few, many, end = report.nodes
    few_usd, many_usd, end_usd = report.usd_per_hour
    assert few < many
    # At most one node for each of the pods that are left.
    assert end <= 4
    # 25 cores and 50 GiB, at spot prices; on demand, four m5.2xlarge would cost 1.54.
    assert few_usd < many_usd < 1.0
    assert end_usd < many_usd / 2
    assert 0 < report.usd < many_usd * (report.seconds_up + report.seconds_down + 60) / 3600
