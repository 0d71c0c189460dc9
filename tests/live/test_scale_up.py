"""Scale-up for pending pods and removal of empty nodes on a real control plane."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.cluster import wait_for
from tests.live.control_plane import ControlPlane
from tests.live.replicas import Installation, a_deployment, run_installation


@pytest.fixture
def installation(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Installation]:
    with run_installation(control_plane, tmp_path) as installation:
        yield installation


def test_nodes_are_launched_for_ten_pods_and_removed_with_them(installation: Installation) -> None:
    installation.cluster.apply(a_deployment("inflate", 0))
    replica = installation.start_replica()

    installation.scale("inflate", 10)
    wait_for("ten pods are ready", lambda: installation.ready_replicas("inflate") == 10, seconds=90)
    nodes = installation.nodes()
    installation.scale("inflate", 0)
    wait_for("no node is left", lambda: not installation.nodes(), seconds=60)
    wait_for("no NodeClaim is left", lambda: not installation.claims(), seconds=60)
    replica.signal(signal.SIGTERM)
    code = replica.wait(seconds=5)

    assert 1 <= len(nodes) <= 4
    assert all("karpenter.sh/nodepool" in node["metadata"]["labels"] for node in nodes)
    assert not installation.running_instances()
    assert code == 0
    assert replica.lines_with("released the lease")


def test_the_virtual_account_can_run_inside_the_controller_process(installation: Installation) -> None:
    installation.cluster.apply(a_deployment("alone", 3))
    replica = installation.start_replica(own_account=True)

    wait_for("three pods are ready", lambda: installation.ready_replicas("alone") == 3, seconds=120)
    replica.signal(signal.SIGTERM)
    code = replica.wait(seconds=5)

    assert code == 0
    assert not installation.launches()
