from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulator.rest.rest_server import Cluster, Kubectl, serve_cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with serve_cluster() as served:
        yield served


@pytest.fixture
def kubectl(cluster: Cluster, tmp_path: Path) -> Kubectl:
    return Kubectl(cluster, tmp_path)
