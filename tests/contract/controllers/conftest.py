"""The control planes that the contract tests of controllers and scheduler run against."""

from collections.abc import Iterator

import pytest

from tests.contract.apiserver.live import connect
from tests.contract.controllers.subject import ControlPlane, LiveControlPlane, SimulatedControlPlane


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
