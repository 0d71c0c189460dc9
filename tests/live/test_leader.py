"""Leader election between two replicas on a real control plane."""

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dovetail.host.clock import SystemClock
from dovetail.kube.leaderelection.elector import IDENTITY_MARK
from tests.live.chaos.api import LEASE, ApiFailure
from tests.live.cluster import wait_for
from tests.live.control_plane import ControlPlane
from tests.live.replicas import DovetailProcess, Installation, a_deployment, run_installation

KILLS = 10
SHORT_LEASE = ("--leader-election-lease-seconds", "5")
FAILOVER = 60.0
"""Seconds; a lease lasts 15, but a busy host is slower."""


@pytest.fixture
def installation(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Installation]:
    with run_installation(control_plane, tmp_path) as installation:
        yield installation
        # Without NodePools, pods of deleted nodes get no NodeClaims, which the next test would count.
        installation.cluster.kubectl("delete", "nodepools", "--all")
        installation.cluster.kubectl("delete", "deployment", "--all", "-n", "default")
        installation.cluster.kubectl("delete", "nodeclaims,nodes", "--all", "--wait=false")


def leader_of(installation: Installation) -> DovetailProcess | None:
    """Return the running replica that holds the lease."""
    try:
        holder = installation.get(LEASE)["spec"].get("holderIdentity") or ""
    except ApiFailure:
        return None  # There is no lease yet.
    pid = holder.partition(IDENTITY_MARK)[2].partition("-")[0]
    return next((replica for replica in installation.replicas if str(replica.pid) == pid), None)


def wait_for_leader(
    installation: Installation, *, other_than: DovetailProcess | None = None
) -> DovetailProcess:
    wait_for("a replica leads", lambda: leader_of(installation) not in (None, other_than), seconds=FAILOVER)
    replica = leader_of(installation)
    assert replica is not None
    return replica


def wait_with_restarts(installation: Installation, what: str, condition: Callable[[], bool]) -> None:
    """Wait; a replica that could not renew its short lease on a busy host is started again."""

    def check() -> bool:
        for replica in installation.replicas:
            if replica.has_exited:
                assert "lost the lease" in replica.tail(), replica.tail()
                replica.wait(seconds=1)
                replica.start()
        return condition()

    wait_for(what, check, seconds=180)


def test_after_sigterm_the_other_replica_becomes_leader_within_ten_seconds(
    installation: Installation,
) -> None:
    installation.start_replica()
    installation.start_replica()
    first = wait_for_leader(installation)
    wait_for("the first has started", lambda: bool(first.lines_with("started")))
    other = next(replica for replica in installation.replicas if replica is not first)
    wait_for(
        "the other stands by", lambda: bool(other.lines_with("another replica is the leader; standing by"))
    )
    clock = SystemClock()

    began = clock.seconds()
    first.signal(signal.SIGTERM)
    code = first.wait(seconds=5)
    wait_for("the other leads", lambda: bool(other.lines_with("became the leader")), seconds=10)

    assert code == 0
    assert first.lines_with("released the lease")
    assert clock.seconds() - began < 10


def test_a_leader_paused_longer_than_its_lease_exits_without_another_write(
    installation: Installation,
) -> None:
    installation.start_replica()
    installation.start_replica()
    first = wait_for_leader(installation)
    wait_for("the first has started", lambda: bool(first.lines_with("started")))

    first.signal(signal.SIGSTOP)
    second = wait_for_leader(installation, other_than=first)
    installation.cluster.apply(a_deployment("later", 3))
    wait_for("the second launches nodes", lambda: installation.ready_replicas("later") == 3, seconds=90)
    first.signal(signal.SIGCONT)
    code = first.wait(seconds=20)

    assert code == 1
    assert "lost the lease" in first.tail()
    assert not first.lines_with("created nodeclaim")
    assert second.lines_with("created nodeclaim")
    assert len(installation.running_instances()) == len(installation.claims())


def test_with_a_short_lease_another_replica_leads_within_seconds_of_a_crash(
    installation: Installation,
) -> None:
    installation.start_replica(*SHORT_LEASE)
    installation.start_replica(*SHORT_LEASE)
    first = wait_for_leader(installation)
    other = next(replica for replica in installation.replicas if replica is not first)
    wait_for(
        "the other stands by", lambda: bool(other.lines_with("another replica is the leader; standing by"))
    )

    first.kill()
    # Less than the default lease lasts: 5 s, and a retry.
    wait_for("the other leads", lambda: bool(other.lines_with("became the leader")), seconds=12)


@pytest.mark.slow
def test_a_leader_killed_ten_times_leaks_no_instance_and_launches_none_twice(
    installation: Installation,
) -> None:
    installation.cluster.apply(a_deployment("inflate", 0))
    installation.start_replica(*SHORT_LEASE)
    installation.start_replica(*SHORT_LEASE)
    sizes = (20, 5, 30, 0, 25, 10)

    for number in range(KILLS):
        wait_with_restarts(installation, "a replica leads", lambda: leader_of(installation) is not None)
        current = wait_for_leader(installation)
        installation.scale("inflate", sizes[number % len(sizes)])
        # Kill it at a different point of launch or termination each time.
        SystemClock().sleep(0.5 * number)
        current.kill()
        current.start()
    installation.scale("inflate", 12)
    wait_with_restarts(installation, "all pods run", lambda: installation.ready_replicas("inflate") == 12)
    wait_with_restarts(
        installation,
        "each instance has a NodeClaim",
        lambda: len(installation.running_instances()) == len(installation.claims()),
    )
    installation.scale("inflate", 0)
    wait_with_restarts(
        installation,
        "no NodeClaim, node or instance is left",
        lambda: not (installation.claims() or installation.nodes() or installation.running_instances()),
    )

    launches = Counter(launch.claim_uid for launch in installation.launches())
    assert max(launches.values()) == 1
