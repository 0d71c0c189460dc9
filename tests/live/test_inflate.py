"""Nodes come for pods that wait and go when they are empty, on a real control plane."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.cluster import wait_for
from tests.live.plane import ControlPlane
from tests.live.replicas import Site, a_deployment, a_site


@pytest.fixture
def site(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Site]:
    with a_site(control_plane, tmp_path) as made:
        yield made


def test_inflate_goes_from_nothing_to_ten_pods_and_back(site: Site) -> None:
    site.cluster.apply(a_deployment("inflate", 0))
    replica = site.replica()

    site.scale("inflate", 10)
    wait_for("ten pods are ready", lambda: site.ready("inflate") == 10, seconds=90)
    filled = site.nodes()
    site.scale("inflate", 0)
    wait_for("all nodes are gone", lambda: not site.nodes(), seconds=60)
    wait_for("all claims are gone", lambda: not site.claims(), seconds=60)
    replica.signal(signal.SIGTERM)
    code = replica.wait(seconds=5)

    assert 1 <= len(filled) <= 4
    assert all("karpenter.sh/nodepool" in one["metadata"]["labels"] for one in filled)
    assert not site.held()
    assert code == 0
    assert replica.fields("gave up the lease")


def test_the_account_may_live_inside_the_controllers(site: Site) -> None:
    site.cluster.apply(a_deployment("alone", 3))
    replica = site.replica(own_account=True)

    wait_for("three pods are ready", lambda: site.ready("alone") == 3, seconds=120)
    replica.signal(signal.SIGTERM)
    code = replica.wait(seconds=5)

    assert code == 0
    assert not site.purchases()
