"""Pods and NodePools that are expensive to plan, on a real control plane."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.live.cluster import wait_for
from tests.live.control_plane import ControlPlane
from tests.live.replicas import Installation, a_deployment, run_installation
from tests.support.kube.hostile_objects import NAMESPACE, hostile_nodepools, hostile_pods

_MAX_WAIT = 5.0
"""Seconds from the Unschedulable condition of an ordinary pod to its NodeClaim."""
_MAX_MIB = 400
_PODS_PER_REQUEST = 16
_TOLERANCE = 1.0
"""Seconds: timestamps of the API have no fractions."""


@pytest.fixture
def installation(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Installation]:
    with run_installation(control_plane, tmp_path) as installation:
        yield installation
        installation.cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
        installation.clear()


def test_ordinary_pods_get_nodes_in_seconds_beside_hostile_pods(installation: Installation) -> None:
    cluster = installation.cluster
    cluster.kubectl("create", "namespace", NAMESPACE)
    # With more labels, the API server validates every status of a NodePool for seconds.
    cluster.apply(*hostile_nodepools(keys=10, values=10))
    replica = installation.start_replica("--disable-leader-election")
    pods = hostile_pods()
    for first in range(0, len(pods), _PODS_PER_REQUEST):
        items = pods[first : first + _PODS_PER_REQUEST]
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        cluster.try_kubectl("create", "-f", "-", stdin=text)  # The API server rejects some.
    assert len(cluster.read("pods", "-n", NAMESPACE)) > 50

    waits = []
    for number in range(4):
        name = f"ordinary-{number}"
        cluster.apply(a_deployment(name, 1, cpu="15"))  # More than other nodes leave free.
        wait_for(f"{name} has a NodeClaim", lambda: _claim_of(installation, name), seconds=150)  # noqa: B023
        waits.append(_wait_of(installation, name))

    assert max(waits) <= _MAX_WAIT + _TOLERANCE, waits
    assert _peak_mib(replica.pid) < _MAX_MIB


def _claim_of(installation: Installation, name: str) -> dict[str, Any] | None:
    """Return the NodeClaim that an Event of the pod names."""
    events = installation.cluster.read("events", "-n", "default", "--field-selector", "reason=Nominated")
    named = [
        event["message"].rpartition("/")[2] for event in events if name in event["involvedObject"]["name"]
    ]
    claims = {claim["metadata"]["name"]: claim for claim in installation.claims()}
    return next((claims[claim] for claim in named if claim in claims), None)


def _wait_of(installation: Installation, name: str) -> float:
    """Return the seconds from the Unschedulable condition of a pod to its NodeClaim."""
    claim = _claim_of(installation, name)
    assert claim is not None
    pods = installation.cluster.read("pods", "-n", "default", "-l", f"app={name}")
    (condition,) = [each for each in pods[0]["status"]["conditions"] if each["type"] == "PodScheduled"]
    pending = (
        pods[0]["metadata"]["creationTimestamp"]
        if condition["status"] == "True"
        else condition["lastTransitionTime"]
    )
    created = datetime.fromisoformat(claim["metadata"]["creationTimestamp"])
    return (created - datetime.fromisoformat(pending)).total_seconds()


def _peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [entry for entry in status.splitlines() if entry.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024
