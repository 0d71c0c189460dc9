"""Every test runs against both CloudProviders."""

from collections.abc import Iterator

import pytest

from tests.contract.cloud.environments import CloudEnvironment, MotoEnvironment, SimulatedEnvironment
from tests.support.moto.server import MotoAws, moto_aws


@pytest.fixture(scope="session")
def moto() -> Iterator[MotoAws]:
    with moto_aws() as running:
        yield running


@pytest.fixture(params=["virtual", "moto"])
def environment(request: pytest.FixtureRequest) -> Iterator[CloudEnvironment]:
    environment: CloudEnvironment
    if request.param == "virtual":
        environment = SimulatedEnvironment()
    else:
        environment = MotoEnvironment(request.getfixturevalue("moto"))
    yield environment
    environment.close()
