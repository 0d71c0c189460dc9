"""Pods with volumes of their own, on a real control plane with virtual nodes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.cluster import wait_for
from tests.live.plane import ControlPlane
from tests.live.replicas import Site, a_site

STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "gp3"},
    "provisioner": "ebs.csi.aws.com",
    "volumeBindingMode": "WaitForFirstConsumer",
    "reclaimPolicy": "Delete",
}


@pytest.fixture
def site(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Site]:
    with a_site(control_plane, tmp_path) as made:
        yield made


def a_stateful_set(name: str, replicas: int) -> dict[str, Any]:
    labels = {"app": name}
    container = {
        "name": "main",
        "image": "pause",
        "resources": {"requests": {"cpu": "1"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "gp3",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
            },
            "volumeClaimTemplates": [claim],
        },
    }


def zones_of(objects: list[dict[str, Any]]) -> set[str]:
    return {one["metadata"]["labels"]["topology.kubernetes.io/zone"] for one in objects}


def test_volumes_are_made_in_the_zone_of_the_node_and_go_with_their_claims(site: Site) -> None:
    site.cluster.apply(STORAGE_CLASS, a_stateful_set("db", 3))
    site.replica()

    def ready() -> int:
        status = site.cluster.read("statefulset", "db", "-n", "default")["status"]
        return int(status.get("readyReplicas") or 0)

    wait_for("three pods with volumes are ready", lambda: ready() == 3, seconds=90)
    volumes, nodes = site.cluster.read("pv"), site.nodes()
    site.cluster.kubectl("delete", "statefulset", "db", "-n", "default")
    site.cluster.kubectl("delete", "pvc", "--all", "-n", "default")
    wait_for("volumes and nodes are gone", lambda: not (site.cluster.read("pv") or site.nodes()))

    assert len(volumes) == 3
    affinities = [one["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] for one in volumes]
    zones = {term["matchExpressions"][0]["values"][0] for terms in affinities for term in terms}
    assert zones <= zones_of(nodes)
    assert not site.held()
