"""`dovetail cluster validate`: nodes come and go, and nothing is left."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.cluster import wait_for
from tests.live.control_plane import ControlPlane
from tests.live.replicas import Installation, run_installation


@pytest.fixture
def installation(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Installation]:
    with run_installation(control_plane, tmp_path) as installation:
        yield installation


def start_validation(installation: Installation, *options: str) -> subprocess.Popen[str]:
    """Start ``dovetail cluster validate`` with the cluster's kubeconfig."""
    arguments = ["cluster", "validate", "--kubeconfig", str(installation.cluster.kubeconfig), *options]
    return subprocess.Popen(
        [sys.executable, "-m", "dovetail", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_validate_sees_nodes_come_and_go_and_leaves_nothing(installation: Installation) -> None:
    installation.start_replica()

    with start_validation(installation, "--replicas", "4", "--timeout", "90s", "-o", "json") as process:
        out, errors = process.communicate(timeout=240)

    assert process.returncode == 0, errors
    report = json.loads(out)
    assert report["ok"]
    assert [step["name"] for step in report["steps"]][2:] == ["nodes come", "nodes go", "clean up"]
    assert report["nodes"]
    assert all(node["removedSeconds"] > 0 and node["instanceType"] for node in report["nodes"])
    assert not installation.nodes()
    assert not installation.claims()
    assert not installation.cluster.read("deployments", "-n", "default")
    assert not installation.running_instances()


def test_validate_that_is_interrupted_leaves_nothing(installation: Installation) -> None:
    installation.start_replica()

    with start_validation(installation, "--timeout", "90s") as process:
        wait_for("a NodeClaim is created", lambda: bool(installation.claims()), seconds=60)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)

    assert process.returncode == 130, errors
    assert "ok: clean up: Deployment inflate-validate was deleted" in errors
    assert not installation.cluster.read("deployments", "-n", "default")
    wait_for("no NodeClaim is left", lambda: not installation.claims(), seconds=60)
    wait_for("no instance is left", lambda: not installation.running_instances(), seconds=60)
