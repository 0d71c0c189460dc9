"""The ways to an API server that are held to the contract."""

import pytest

from tests.contract.kube.places import Reach, in_cluster, in_memory, over_http, reaching


@pytest.fixture(params=["memory", "http", pytest.param("live", marks=pytest.mark.live)])
def reach(request: pytest.FixtureRequest) -> Reach:
    if request.param == "memory":
        return reaching(in_memory)
    if request.param == "http":
        return reaching(over_http)
    cluster = request.getfixturevalue("equipped_cluster")
    return reaching(lambda: in_cluster(cluster))
