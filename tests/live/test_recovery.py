"""Recovery from API server restarts during scale-up and scale-down."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.cluster import wait_for
from tests.live.control_plane import ControlPlane
from tests.live.replicas import Installation, a_deployment, run_installation


@pytest.fixture
def installation(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Installation]:
    with run_installation(control_plane, tmp_path) as installation:
        yield installation


@pytest.mark.parametrize("compact", [False, True], ids=["history-kept", "history-compacted"])
def test_an_api_server_restart_during_scale_up_and_scale_down_leaks_nothing(
    installation: Installation, control_plane: ControlPlane, compact: bool
) -> None:
    # Without leader election: on a busy host the restart could outlast the lease.
    replica = installation.start_replica("--disable-leader-election")
    installation.cluster.apply(a_deployment("inflate", 30))
    wait_for("NodeClaims are created", lambda: bool(installation.claims()), seconds=90)

    control_plane.restart_apiserver(compact=compact)
    installation.scale("inflate", 40)
    wait_for("forty pods are ready", lambda: installation.ready_replicas("inflate") == 40, seconds=180)
    counts = len(installation.nodes()), len(installation.claims()), len(installation.running_instances())
    installation.scale("inflate", 0)
    control_plane.restart_apiserver(compact=compact)
    wait_for(
        "no NodeClaim or node is left",
        lambda: not (installation.claims() or installation.nodes()),
        seconds=180,
    )

    replica.check()
    installation.account.check()
    assert len(set(counts)) == 1
    assert not installation.running_instances()
    assert set(Counter(launch.claim_uid for launch in installation.launches()).values()) == {1}
