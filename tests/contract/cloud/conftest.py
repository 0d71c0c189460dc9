"""Every test here is run against both clouds."""

from collections.abc import Iterator

import pytest

from tests.contract.cloud.worlds import MotoWorld, VirtualWorld, World
from tests.support.moto.server import MotoAws, moto_aws


@pytest.fixture(scope="session")
def moto() -> Iterator[MotoAws]:
    with moto_aws() as running:
        yield running


@pytest.fixture(params=["virtual", "moto"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made: World
    if request.param == "virtual":
        made = VirtualWorld()
    else:
        made = MotoWorld(request.getfixturevalue("moto"))
    yield made
    made.end()
