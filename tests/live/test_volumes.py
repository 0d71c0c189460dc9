"""Pods with persistent volumes on a real control plane with virtual nodes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.cluster import wait_for
from tests.live.control_plane import ControlPlane
from tests.live.replicas import Installation, run_installation

STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "gp3"},
    "provisioner": "ebs.csi.aws.com",
    "volumeBindingMode": "WaitForFirstConsumer",
    "reclaimPolicy": "Delete",
}


@pytest.fixture
def installation(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Installation]:
    with run_installation(control_plane, tmp_path) as installation:
        yield installation


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
    return {obj["metadata"]["labels"]["topology.kubernetes.io/zone"] for obj in objects}


def test_volumes_are_created_in_the_zone_of_the_node_and_deleted_with_their_claims(
    installation: Installation,
) -> None:
    installation.cluster.apply(STORAGE_CLASS, a_stateful_set("db", 3))
    installation.start_replica()

    def ready_replicas() -> int:
        status = installation.cluster.read("statefulset", "db", "-n", "default")["status"]
        return int(status.get("readyReplicas") or 0)

    wait_for("three pods with volumes are ready", lambda: ready_replicas() == 3, seconds=90)
    volumes, nodes = installation.cluster.read("pv"), installation.nodes()
    installation.cluster.kubectl("delete", "statefulset", "db", "-n", "default")
    installation.cluster.kubectl("delete", "pvc", "--all", "-n", "default")
    wait_for(
        "volumes and nodes are gone", lambda: not (installation.cluster.read("pv") or installation.nodes())
    )

    assert len(volumes) == 3
    affinities = [volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] for volume in volumes]
    zones = {term["matchExpressions"][0]["values"][0] for terms in affinities for term in terms}
    assert zones <= zones_of(nodes)
    assert not installation.running_instances()
