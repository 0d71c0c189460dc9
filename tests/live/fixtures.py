"""Fixtures that give a test a real cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.building import controlplane_binary
from tests.live.cluster import Cluster
from tests.live.crds import install_crds
from tests.live.plane import ControlPlane


@contextmanager
def running_control_plane(
    program: Path, folder: Path, *, webhook: str | None = None
) -> Iterator[ControlPlane]:
    """Run a control plane of our own as long as the block lasts."""
    plane = ControlPlane(program, folder, webhook=webhook)
    plane.start()
    try:
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def controlplane_program(request: pytest.FixtureRequest) -> Path:
    """The program that ``ControlPlane`` runs; whoever waits for its build sees why."""
    if request.config.getoption("--kubeconfig"):
        pytest.skip("needs a control plane of its own, not the cluster of --kubeconfig")
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        return controlplane_binary()


@pytest.fixture(scope="session")
def live_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A cluster that all live tests share: the one of --kubeconfig, or our own control plane."""
    named = request.config.getoption("--kubeconfig")
    if named:
        yield Cluster(Path(named).expanduser().absolute())
        return
    program = request.getfixturevalue("controlplane_program")
    with running_control_plane(program, tmp_path_factory.mktemp("controlplane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def equipped_cluster(live_cluster: Cluster) -> Cluster:
    """The shared cluster, with our CRDs."""
    install_crds(live_cluster)
    return live_cluster


@pytest.fixture(scope="module")
def control_plane(
    controlplane_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A control plane for the tests of one file alone, who may stop and start its parts."""
    folder = tmp_path_factory.mktemp("controlplane")
    with running_control_plane(controlplane_program, folder) as plane:
        yield plane
