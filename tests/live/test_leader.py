"""Two replicas on a real control plane: one leads, whatever happens to it."""

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from dovetail.host.clock import RealClock
from dovetail.kube.leaderelection.elector import OURS
from tests.live.cluster import wait_for
from tests.live.plane import ControlPlane
from tests.live.replicas import Dovetail, Site, a_deployment, a_site

KILLS = 20
FAILOVER = 60.0
"""Seconds: a lease lasts 15, but two cores may have much else to do."""


@pytest.fixture
def site(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Site]:
    with a_site(control_plane, tmp_path) as made:
        yield made
        made.cluster.kubectl("delete", "deployment", "--all", "-n", "default")
        made.cluster.kubectl("delete", "nodeclaims,nodes", "--all", "--wait=false")


def leader_of(site: Site) -> Dovetail | None:
    """Return the replica that holds the lease, if it is one that runs."""
    found = site.cluster.try_kubectl(
        "get", "lease", "karpenter-leader-election", "-n", "kube-system",
        "-o", "jsonpath={.spec.holderIdentity}",
    )  # fmt: skip
    pid = found.stdout.partition(OURS)[2].partition("-")[0]
    return next((one for one in site.replicas if str(one.pid) == pid), None)


def leader(site: Site, *, other_than: Dovetail | None = None) -> Dovetail:
    wait_for(
        "a replica leads",
        lambda: leader_of(site) not in (None, other_than),
        seconds=FAILOVER,
    )
    found = leader_of(site)
    assert found is not None
    return found


def test_after_sigterm_the_other_replica_leads_within_seconds(site: Site) -> None:
    site.replica()
    site.replica()
    first = leader(site)
    wait_for("it works", lambda: bool(first.fields("started")))
    other = next(one for one in site.replicas if one is not first)
    wait_for(
        "the other stands by", lambda: bool(other.fields("another replica leads; standing by"))
    )
    clock = RealClock()

    began = clock.seconds()
    first.signal(signal.SIGTERM)
    code = first.wait(seconds=5)
    wait_for("the other leads", lambda: bool(other.fields("became the leader")), seconds=10)

    assert code == 0
    assert first.fields("gave up the lease")
    assert clock.seconds() - began < 10


def test_a_leader_that_was_stopped_for_long_ends_without_another_write(site: Site) -> None:
    site.replica()
    site.replica()
    first = leader(site)
    wait_for("it works", lambda: bool(first.fields("started")))

    first.signal(signal.SIGSTOP)
    second = leader(site, other_than=first)
    site.cluster.apply(a_deployment("later", 3))
    wait_for("the second buys", lambda: site.ready("later") == 3, seconds=90)
    first.signal(signal.SIGCONT)
    code = first.wait(seconds=20)

    assert code == 1
    assert "lost the lease" in first.tail()
    assert not first.fields("created nodeclaim")
    assert second.fields("created nodeclaim")
    assert len(site.held()) == len(site.claims())


@pytest.mark.slow
def test_a_leader_killed_twenty_times_leaks_nothing_and_buys_nothing_twice(site: Site) -> None:
    site.cluster.apply(a_deployment("inflate", 0))
    site.replica()
    site.replica()
    sizes = (20, 5, 30, 0, 25, 10)

    for number in range(KILLS):
        doomed = leader(site)
        site.scale("inflate", sizes[number % len(sizes)])
        # Each time at another point of buying or giving back.
        RealClock().sleep(0.5 * (number % 10))
        doomed.kill()
        doomed.start()
    site.scale("inflate", 12)
    wait_for("all pods run", lambda: site.ready("inflate") == 12, seconds=180)
    wait_for(
        "each machine has a claim", lambda: len(site.held()) == len(site.claims()), seconds=180
    )
    site.scale("inflate", 0)
    wait_for("nothing is left", lambda: not (site.claims() or site.nodes()), seconds=180)
    wait_for("nothing is paid for", lambda: not site.held(), seconds=180)

    bought = Counter(one.claim_uid for one in site.purchases())
    assert max(bought.values()) == 1
