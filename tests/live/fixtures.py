"""Fixtures for a real cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.cluster import Cluster
from tests.live.control_plane import ControlPlane
from tests.live.controlplane_binary import controlplane_binary
from tests.live.crds import install_crds


@contextmanager
def running_control_plane(
    binary: Path, folder: Path, *, webhook: str | None = None
) -> Iterator[ControlPlane]:
    """Run a control plane for the duration of the block."""
    control_plane = ControlPlane(binary, folder, webhook=webhook)
    control_plane.start()
    try:
        yield control_plane
    finally:
        control_plane.stop()


@pytest.fixture(scope="session")
def controlplane_binary_path(request: pytest.FixtureRequest) -> Path:
    """The binary that ``ControlPlane`` runs; a message is shown while it is built."""
    if request.config.getoption("--kubeconfig"):
        pytest.skip("needs its own control plane, not the cluster of --kubeconfig")
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        return controlplane_binary()


@pytest.fixture(scope="session")
def live_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """The cluster that all live tests share: that of --kubeconfig, or a control plane."""
    kubeconfig = request.config.getoption("--kubeconfig")
    if kubeconfig:
        yield Cluster(Path(kubeconfig).expanduser().absolute())
        return
    binary = request.getfixturevalue("controlplane_binary_path")
    with running_control_plane(binary, tmp_path_factory.mktemp("controlplane")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster_with_crds(live_cluster: Cluster) -> Cluster:
    """The shared cluster, with Dovetail's CRDs."""
    install_crds(live_cluster)
    return live_cluster


@pytest.fixture(scope="module")
def control_plane(
    controlplane_binary_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A control plane for the tests of one file, which may stop and start its components."""
    folder = tmp_path_factory.mktemp("controlplane")
    with running_control_plane(controlplane_binary_path, folder) as cluster:
        yield cluster
