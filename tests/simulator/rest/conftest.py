from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulator.rest.serving import Cluster, Kubectl, a_cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with a_cluster() as served:
        yield served


@pytest.fixture
def kubectl(cluster: Cluster, tmp_path: Path) -> Kubectl:
    return Kubectl(cluster, tmp_path)
