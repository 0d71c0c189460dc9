"""What people try first with a node autoscaler, on a real control plane."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.cluster import wait_for
from tests.live.plane import ControlPlane
from tests.live.replicas import Site, a_deployment, a_pool, a_site

ZONE = "topology.kubernetes.io/zone"
ARCH = "kubernetes.io/arch"
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d")


@pytest.fixture
def site(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Site]:
    with a_site(control_plane, tmp_path) as made:
        yield made
        made.clear()


def pods(site: Site, app: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = site.cluster.read("pods", "-n", "default", "-l", f"app={app}")
    return found


def nodes_of(site: Site, app: str) -> list[dict[str, Any]]:
    """Return the nodes that the pods of a Deployment are bound to."""
    names = {one["spec"].get("nodeName") for one in pods(site, app)}
    return [one for one in site.nodes() if one["metadata"]["name"] in names]


def values(nodes: list[dict[str, Any]], label: str) -> list[str]:
    return sorted(one["metadata"]["labels"][label] for one in nodes)


def allowing(key: str, *allowed: str) -> dict[str, Any]:
    """A NodePool whose requirement on ``key`` is this one."""
    pool = a_pool()
    spec = pool["spec"]["template"]["spec"]
    others = [one for one in spec["requirements"] if one["key"] != key]
    spec["requirements"] = [*others, {"key": key, "operator": "In", "values": list(allowed)}]
    return pool


def over_zones(app: str) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }


def test_four_pods_in_four_zones_become_a_hundred_and_four_again(site: Site) -> None:
    site.cluster.apply(allowing(ZONE, *ZONES))
    spread = [over_zones("chip")]
    site.cluster.apply(a_deployment("chip", 4, cpu="250m", topologySpreadConstraints=spread))
    site.replica()

    wait_for("four pods are ready", lambda: site.ready("chip") == 4, seconds=120)
    at_first = site.nodes()
    site.scale("chip", 100)
    wait_for("a hundred pods are ready", lambda: site.ready("chip") == 100, seconds=180)
    at_most = site.nodes()
    in_zones = [
        node["metadata"]["labels"][ZONE]
        for pod in pods(site, "chip")
        for node in at_most
        if node["metadata"]["name"] == pod["spec"]["nodeName"]
    ]
    site.scale("chip", 4)
    wait_for("four pods are left", lambda: len(pods(site, "chip")) == 4)
    wait_for(
        "nodes without pods are gone",
        lambda: len(site.nodes()) == len(site.claims()) == len(nodes_of(site, "chip")),
        seconds=120,
    )

    assert values(at_first, ZONE) == list(ZONES)
    assert [in_zones.count(one) for one in ZONES] == [25, 25, 25, 25]
    assert len(at_most) > len(at_first)
    assert site.ready("chip") == 4
    assert 1 <= len(site.nodes()) <= 4
    assert len(site.held()) == len(site.nodes())


def test_each_architecture_gets_nodes_of_its_own_kind(site: Site) -> None:
    site.cluster.apply(allowing(ARCH, "amd64", "arm64"))
    site.cluster.apply(
        a_deployment("intel", 6, nodeSelector={ARCH: "amd64"}),
        a_deployment("graviton", 6, nodeSelector={ARCH: "arm64"}),
    )
    site.replica()

    for app in ("intel", "graviton"):
        wait_for(f"{app} is ready", lambda app=app: site.ready(app) == 6, seconds=120)

    assert set(values(nodes_of(site, "intel"), ARCH)) == {"amd64"}
    assert set(values(nodes_of(site, "graviton"), ARCH)) == {"arm64"}
    assert len(site.nodes()) == len(nodes_of(site, "intel")) + len(nodes_of(site, "graviton"))


def test_a_node_deleted_with_kubectl_is_drained_ended_and_replaced(site: Site) -> None:
    site.cluster.apply(a_deployment("moved", 6))
    site.replica()
    wait_for("six pods are ready", lambda: site.ready("moved") == 6, seconds=120)
    doomed = site.nodes()

    for one in doomed:
        site.cluster.kubectl("delete", "node", one["metadata"]["name"], "--timeout=90s")
    wait_for("six pods are ready elsewhere", lambda: site.ready("moved") == 6, seconds=120)
    wait_for("old claims are gone", lambda: len(site.claims()) == len(site.nodes()), seconds=60)

    gone = {one["spec"]["providerID"] for one in doomed}
    assert not gone & {one["spec"]["providerID"] for one in site.nodes()}
    assert not gone & {one.provider_id for one in site.held()}
    assert len(site.held()) == len(site.nodes())
