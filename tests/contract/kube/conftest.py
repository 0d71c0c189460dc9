"""The ways to an API server that are held to the contract."""

import pytest

from tests.contract.kube.places import Reach, in_cluster, in_memory, over_http, reaching
from tests.live.crds import install_crds


@pytest.fixture(params=["memory", "http", pytest.param("live", marks=pytest.mark.live)])
def reach(request: pytest.FixtureRequest) -> Reach:
    if request.param == "memory":
        return reaching(in_memory)
    if request.param == "http":
        return reaching(over_http)
    cluster = request.getfixturevalue("live_cluster")
    install_crds(cluster)
    return reaching(lambda: in_cluster(cluster))
