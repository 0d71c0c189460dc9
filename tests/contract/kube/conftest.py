"""The KubeClients that the contract tests run against."""

import pytest

from tests.contract.kube.clients import RunTest, in_cluster, in_memory, over_http, run_with


@pytest.fixture(params=["memory", "http", pytest.param("live", marks=pytest.mark.live)])
def run_test(request: pytest.FixtureRequest) -> RunTest:
    if request.param == "memory":
        return run_with(in_memory)
    if request.param == "http":
        return run_with(over_http)
    cluster = request.getfixturevalue("cluster_with_crds")
    return run_with(lambda: in_cluster(cluster))
