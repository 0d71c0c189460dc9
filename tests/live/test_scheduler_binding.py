"""kube-scheduler binds every pod that the solver placed, and every node is used."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.chaos.api import PODS
from tests.live.cluster import wait_for
from tests.live.control_plane import ControlPlane
from tests.live.mixed_workloads import STORAGE_CLASS, MixedWorkloads, node_pools
from tests.live.replicas import Installation, run_installation

DEPLOYMENTS = 500
SEED = 5
TIMEOUT = 900.0
"""Seconds; an idle host needs a quarter of it."""
MAX_LAUNCHES = 1.1
"""Launched over planned nodes: kube-scheduler may bind pods before slow nodes are ready."""


@pytest.fixture
def installation(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Installation]:
    with run_installation(control_plane, tmp_path) as installation:
        yield installation


def list_pods(installation: Installation, query: str = "") -> list[dict[str, Any]]:
    pods: list[dict[str, Any]] = installation.get(PODS + query)["items"]
    return pods


def unbound_pods(installation: Installation) -> list[str]:
    """Return the pods without a node, with kube-scheduler's messages."""
    return [
        f"{pod['metadata']['name']}: {condition.get('message', '')}"
        for pod in list_pods(installation, "?fieldSelector=spec.nodeName%3D")
        for condition in pod["status"].get("conditions") or [{}]
    ]


def count_unschedulable(installation: Installation) -> int:
    """Count the pods that kube-scheduler has marked: only these are planned."""
    return sum(
        any(condition.get("reason") == "Unschedulable" for condition in pod["status"].get("conditions", ()))
        for pod in list_pods(installation)
    )


def node_names(installation: Installation) -> set[str]:
    return {node["metadata"]["name"] for node in installation.nodes()}


def used_nodes(installation: Installation) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in list_pods(installation) if pod["spec"].get("nodeName")}


@pytest.mark.slow
def test_all_pods_of_500_mixed_deployments_are_bound_and_every_node_is_used(
    installation: Installation,
) -> None:
    workloads = MixedWorkloads(SEED).generate(DEPLOYMENTS)
    count = sum(obj["spec"].get("replicas", 0) for obj in workloads)
    installation.cluster.apply(STORAGE_CLASS, *node_pools())
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": workloads})
    installation.cluster.kubectl("create", "--validate=false", "-f", "-", stdin=text)
    wait_for("all pods are marked", lambda: count_unschedulable(installation) == count, seconds=TIMEOUT)

    # A single replica needs no lease, which a busy host could fail to renew in time.
    replica = installation.start_replica("--disable-leader-election")
    try:
        wait_for("all pods are bound", lambda: not unbound_pods(installation), seconds=TIMEOUT)
    except AssertionError as error:
        error.add_note("\n".join(unbound_pods(installation)[:20]))
        raise

    (planned, *_) = replica.lines_with("computed new nodeclaim(s) to fit pod(s)")
    assert planned["pods"] == count
    assert len(installation.launches()) <= MAX_LAUNCHES * planned["nodeclaims"]
    installation.cluster.apply(*node_pools(consolidate_after="2s"))
    wait_for(
        "every node is used", lambda: node_names(installation) == used_nodes(installation), seconds=TIMEOUT
    )

    assert not unbound_pods(installation)
    assert len(installation.nodes()) == len(installation.claims()) == len(installation.running_instances())
