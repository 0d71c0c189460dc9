"""Start-up errors of ``dovetail run``: one line, within seconds, before any write."""

import subprocess
import sys
from pathlib import Path

import yaml

from dovetail.host.clock import SystemClock
from tests.live.control_plane import ControlPlane
from tests.live.crds import install_crds

START_TIMEOUT = 20.0
"""Seconds."""


def start_error(kubeconfig: Path, *options: str) -> str:
    """Run ``dovetail run`` until it exits and return its error line."""
    clock = SystemClock()
    started = clock.seconds()
    result = subprocess.run(
        [
            sys.executable, "-m", "dovetail", "run", "--cloud", "virtual", "--cluster-name", "x",
            "--metrics-port", "0", "--health-probe-port", "0", "--kubeconfig", kubeconfig, *options,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip

    assert result.returncode == 1
    assert clock.seconds() - started < START_TIMEOUT
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    return result.stderr


def test_missing_crds_are_named(control_plane: ControlPlane) -> None:
    error = start_error(control_plane.kubeconfig)

    assert "does not serve " in error
    assert "nodepools.karpenter.sh (v1)" in error
    assert "ec2nodeclasses.karpenter.k8s.aws (v1)" in error
    assert "install the CustomResourceDefinitions first" in error


def test_missing_permissions_are_named(control_plane: ControlPlane) -> None:
    install_crds(control_plane)

    error = start_error(control_plane.kubeconfig_for("no-permissions"))

    assert "missing permissions: list" in error
    assert "create pods/eviction" in error


def test_rejected_credentials_are_reported(control_plane: ControlPlane, tmp_path: Path) -> None:
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "no-such-token"}
    changed = tmp_path / "config"
    changed.write_text(yaml.safe_dump(config))

    assert "rejects our credentials" in start_error(changed)


def test_a_hanging_exec_plugin_is_named(control_plane: ControlPlane, tmp_path: Path) -> None:
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    plugin = {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"]}
    config["users"][0]["user"] = {"exec": plugin}
    changed = tmp_path / "config"
    changed.write_text(yaml.safe_dump(config))

    assert "the exec plugin of the kubeconfig gave no answer" in start_error(changed)


def test_a_missing_lease_namespace_is_named(control_plane: ControlPlane) -> None:
    install_crds(control_plane)

    error = start_error(control_plane.kubeconfig, "--leader-election-namespace", "missing")

    assert "there is no namespace 'missing' for the lease" in error


def test_an_unknown_region_is_named(control_plane: ControlPlane) -> None:
    install_crds(control_plane)

    error = start_error(control_plane.kubeconfig, "--region", "atlantis-1")

    assert "'atlantis-1' is not a region" in error


def test_a_cluster_with_real_nodes_is_rejected_for_virtual_nodes(control_plane: ControlPlane) -> None:
    install_crds(control_plane)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real-node"}}
    control_plane.apply(node)

    error = start_error(control_plane.kubeconfig)

    assert "real nodes (real-node)" in error
    assert "--virtual-anyway" in error
