"""An API server that goes away in the middle of everything, and comes back."""

from collections import Counter
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


@pytest.mark.parametrize("forgetting", [False, True], ids=["as it was", "without its history"])
def test_an_api_server_that_is_killed_in_a_scale_up_and_a_scale_down_costs_only_time(
    site: Site, control_plane: ControlPlane, forgetting: bool
) -> None:
    # Without the lease, so that nobody ends when a busy machine is slow to bring it back.
    replica = site.replica("--disable-leader-election")
    site.cluster.apply(a_deployment("inflate", 30))
    wait_for("claims are written", lambda: bool(site.claims()), seconds=90)

    control_plane.restart_apiserver(forgetting=forgetting)
    site.scale("inflate", 40)
    wait_for("forty pods are ready", lambda: site.ready("inflate") == 40, seconds=180)
    filled = len(site.nodes()), len(site.claims()), len(site.held())
    site.scale("inflate", 0)
    control_plane.restart_apiserver(forgetting=forgetting)
    wait_for("nothing is left", lambda: not (site.claims() or site.nodes()), seconds=180)

    replica.check()
    site.account.check()
    assert len(set(filled)) == 1
    assert not site.held()
    assert set(Counter(one.claim_uid for one in site.purchases()).values()) == {1}
