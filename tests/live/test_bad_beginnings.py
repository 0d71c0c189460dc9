"""What keeps ``dovetail run`` from beginning is said in one sentence, soon, and changes nothing."""

import subprocess
import sys
from pathlib import Path

import yaml

from dovetail.host.clock import RealClock
from tests.live.crds import install_crds
from tests.live.plane import ControlPlane

SOON = 10.0


def complaint(kubeconfig: Path, *options: str) -> str:
    """Run it until it ends by itself; returns its one sentence."""
    clock = RealClock()
    began = clock.seconds()
    done = subprocess.run(
        [
            sys.executable, "-m", "dovetail", "run", "--cloud", "virtual", "--cluster-name", "x",
            "--metrics-port", "0", "--health-probe-port", "0", "--kubeconfig", kubeconfig, *options,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert clock.seconds() - began < SOON
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.stderr


def test_missing_kinds_are_named(control_plane: ControlPlane) -> None:
    told = complaint(control_plane.kubeconfig)

    assert "does not know " in told
    assert "nodepools.karpenter.sh (v1)" in told
    assert "ec2nodeclasses.karpenter.k8s.aws (v1)" in told
    assert "install the CustomResourceDefinitions first" in told


def test_a_user_without_rights_is_told_which(control_plane: ControlPlane) -> None:
    install_crds(control_plane)

    told = complaint(control_plane.kubeconfig_for("nobody-in-particular"))

    assert "may not list" in told
    assert "create pods/eviction" in told


def test_credentials_that_are_not_accepted_are_said_to_be_so(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "no-such-token"}
    changed = tmp_path / "config"
    changed.write_text(yaml.safe_dump(config))

    assert "does not accept our credentials" in complaint(changed)


def test_a_program_for_credentials_that_hangs_is_named(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    hangs = {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"]}
    config["users"][0]["user"] = {"exec": hangs}
    changed = tmp_path / "config"
    changed.write_text(yaml.safe_dump(config))

    assert "user.exec names gave no answer" in complaint(changed)


def test_a_namespace_for_the_lease_that_is_not_there_is_named(control_plane: ControlPlane) -> None:
    install_crds(control_plane)

    told = complaint(control_plane.kubeconfig, "--leader-election-namespace", "nowhere")

    assert "there is no namespace 'nowhere' for the lease" in told


def test_a_region_that_is_not_there_is_named(control_plane: ControlPlane) -> None:
    install_crds(control_plane)

    told = complaint(control_plane.kubeconfig, "--region", "atlantis-1")

    assert "'atlantis-1' is no region" in told


def test_a_cluster_with_real_nodes_gets_no_virtual_ones(control_plane: ControlPlane) -> None:
    install_crds(control_plane)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "made-of-steel"}}
    control_plane.apply(node)

    told = complaint(control_plane.kubeconfig)

    assert "real nodes (made-of-steel)" in told
    assert "--virtual-anyway" in told
