"""Common node autoscaling scenarios on a real control plane."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.cluster import wait_for
from tests.live.control_plane import ControlPlane
from tests.live.replicas import Installation, a_deployment, a_pool, run_installation

ZONE = "topology.kubernetes.io/zone"
ARCH = "kubernetes.io/arch"
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d")


@pytest.fixture
def installation(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Installation]:
    with run_installation(control_plane, tmp_path) as installation:
        yield installation
        installation.clear()


def pods_of(installation: Installation, app: str) -> list[dict[str, Any]]:
    pods: list[dict[str, Any]] = installation.cluster.read("pods", "-n", "default", "-l", f"app={app}")
    return pods


def nodes_of(installation: Installation, app: str) -> list[dict[str, Any]]:
    """Return the nodes with pods of a Deployment."""
    names = {pod["spec"].get("nodeName") for pod in pods_of(installation, app)}
    return [node for node in installation.nodes() if node["metadata"]["name"] in names]


def label_values(nodes: list[dict[str, Any]], label: str) -> list[str]:
    return sorted(node["metadata"]["labels"][label] for node in nodes)


def pool_with(key: str, *allowed: str) -> dict[str, Any]:
    """Return a NodePool that requires one of these values for a label."""
    pool = a_pool()
    spec = pool["spec"]["template"]["spec"]
    others = [requirement for requirement in spec["requirements"] if requirement["key"] != key]
    spec["requirements"] = [*others, {"key": key, "operator": "In", "values": list(allowed)}]
    return pool


def zone_spread(app: str) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }


def test_a_zone_spread_deployment_scales_from_4_to_100_pods_and_back(installation: Installation) -> None:
    installation.cluster.apply(pool_with(ZONE, *ZONES))
    spread = [zone_spread("chip")]
    installation.cluster.apply(a_deployment("chip", 4, cpu="250m", topologySpreadConstraints=spread))
    installation.start_replica()

    wait_for("four pods are ready", lambda: installation.ready_replicas("chip") == 4, seconds=120)
    nodes_before = installation.nodes()
    installation.scale("chip", 100)
    wait_for("a hundred pods are ready", lambda: installation.ready_replicas("chip") == 100, seconds=180)
    nodes_at_peak = installation.nodes()
    pod_zones = [
        node["metadata"]["labels"][ZONE]
        for pod in pods_of(installation, "chip")
        for node in nodes_at_peak
        if node["metadata"]["name"] == pod["spec"]["nodeName"]
    ]
    installation.scale("chip", 4)
    wait_for("four pods are left", lambda: len(pods_of(installation, "chip")) == 4)
    wait_for(
        "empty nodes are removed",
        lambda: (
            len(installation.nodes()) == len(installation.claims()) == len(nodes_of(installation, "chip"))
        ),
        seconds=120,
    )

    assert label_values(nodes_before, ZONE) == list(ZONES)
    assert [pod_zones.count(zone) for zone in ZONES] == [25, 25, 25, 25]
    assert len(nodes_at_peak) > len(nodes_before)
    assert installation.ready_replicas("chip") == 4
    assert 1 <= len(installation.nodes()) <= 4
    assert len(installation.running_instances()) == len(installation.nodes())


def test_pods_for_amd64_and_arm64_get_nodes_of_their_architecture(installation: Installation) -> None:
    installation.cluster.apply(pool_with(ARCH, "amd64", "arm64"))
    installation.cluster.apply(
        a_deployment("intel", 6, nodeSelector={ARCH: "amd64"}),
        a_deployment("graviton", 6, nodeSelector={ARCH: "arm64"}),
    )
    installation.start_replica()

    for app in ("intel", "graviton"):
        wait_for(f"{app} is ready", lambda app=app: installation.ready_replicas(app) == 6, seconds=120)

    assert set(label_values(nodes_of(installation, "intel"), ARCH)) == {"amd64"}
    assert set(label_values(nodes_of(installation, "graviton"), ARCH)) == {"arm64"}
    assert len(installation.nodes()) == len(nodes_of(installation, "intel")) + len(
        nodes_of(installation, "graviton")
    )


def test_a_node_deleted_with_kubectl_is_drained_terminated_and_replaced(installation: Installation) -> None:
    installation.cluster.apply(a_deployment("moved", 6))
    installation.start_replica()
    wait_for("six pods are ready", lambda: installation.ready_replicas("moved") == 6, seconds=120)
    deleted = installation.nodes()

    for node in deleted:
        installation.cluster.kubectl("delete", "node", node["metadata"]["name"], "--timeout=90s")
    wait_for("six pods are ready elsewhere", lambda: installation.ready_replicas("moved") == 6, seconds=120)
    wait_for(
        "old NodeClaims are gone", lambda: len(installation.claims()) == len(installation.nodes()), seconds=60
    )

    deleted_ids = {node["spec"]["providerID"] for node in deleted}
    assert not deleted_ids & {node["spec"]["providerID"] for node in installation.nodes()}
    assert not deleted_ids & {instance.provider_id for instance in installation.running_instances()}
    assert len(installation.running_instances()) == len(installation.nodes())
