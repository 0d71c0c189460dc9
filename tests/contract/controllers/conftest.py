"""The control planes that the contract tests of controllers and scheduler run against."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.apiserver.live import connect
from tests.contract.controllers import autoscaling
from tests.contract.controllers.autoscaling import AutoscaledPlane, LiveLoad
from tests.contract.controllers.subject import ControlPlane, LiveControlPlane, SimulatedControlPlane
from tests.live.cluster import Cluster


@pytest.fixture(params=["simulated", pytest.param("live", marks=pytest.mark.live)])
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A control plane with an empty namespace."""
    if request.param == "simulated":
        yield SimulatedControlPlane()
        return
    cluster = request.getfixturevalue("live_cluster")
    connection = connect(cluster)
    live = LiveControlPlane(cluster, connection)
    yield live
    live.clean_up()
    connection.close()


@pytest.fixture(scope="module")
def live_autoscaler(
    controlplane_binary_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cluster, LiveLoad]]:
    """A control plane with short periods of its autoscaler; see ``flags``."""
    folder = tmp_path_factory.mktemp("autoscaler")
    with autoscaling.live_autoscaler(controlplane_binary_path, folder) as running:
        yield running


@pytest.fixture(params=["simulated", pytest.param("live", marks=pytest.mark.live)])
def autoscaled(request: pytest.FixtureRequest) -> Iterator[AutoscaledPlane]:
    """A control plane whose autoscaler's load a test sets."""
    if request.param == "simulated":
        yield autoscaling.simulated()
        return
    with autoscaling.live(*request.getfixturevalue("live_autoscaler")) as plane:
        yield plane
