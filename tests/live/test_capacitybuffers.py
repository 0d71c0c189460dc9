"""CapacityBuffers on a real control plane with virtual nodes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail.host.clock import SystemClock
from tests.live.cluster import wait_for
from tests.live.control_plane import ControlPlane
from tests.live.replicas import Installation, a_deployment, a_pool, run_installation

BUFFER = {
    "apiVersion": "autoscaling.x-k8s.io/v1beta1",
    "kind": "CapacityBuffer",
    "metadata": {"name": "buffer", "namespace": "default"},
}


@pytest.fixture
def installation(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Installation]:
    with run_installation(control_plane, tmp_path) as installation:
        installation.cluster.apply(a_pool(consolidate_after="0s"))
        try:
            yield installation
        finally:
            installation.cluster.kubectl("delete", "capacitybuffers,podtemplates", "--all", "-n", "default")
            installation.clear()


def a_workload(name: str, *, cpu: str = "1") -> dict[str, Any]:
    """Return a Deployment without pods; each would need its own node."""
    selector = {"matchLabels": {"app": name}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return a_deployment(name, 0, cpu=cpu, affinity=apart)


def a_template(cpu: str) -> dict[str, Any]:
    template = a_workload("buffer", cpu=cpu)["spec"]["template"]
    metadata = {"name": "buffer", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template}


def get_status(installation: Installation) -> dict[str, Any]:
    buffer = installation.cluster.read("capacitybuffer", "buffer", "-n", "default")
    status: dict[str, Any] = buffer.get("status", {})
    return status


def is_provisioned(installation: Installation) -> bool:
    conditions = {
        condition["type"]: condition["status"] for condition in get_status(installation).get("conditions", ())
    }
    return conditions.get("Provisioning") == "True"


def test_nodes_of_a_buffer_are_launched_once_and_follow_its_pod_template(installation: Installation) -> None:
    spec = {"podTemplateRef": {"name": "buffer"}, "replicas": 2}
    installation.start_replica("--feature-gates", "CapacityBuffer=true")

    # The buffer exists before its template: the watch must find the template.
    installation.cluster.apply({**BUFFER, "spec": spec})
    wait_for("the missing template is reported", lambda: "conditions" in get_status(installation))
    installation.cluster.apply(a_template("1"))
    wait_for("nodes are ready", lambda: len(installation.nodes()) == 2, seconds=30)
    wait_for("the buffer is provisioned", lambda: is_provisioned(installation), seconds=15)
    first = get_status(installation)
    SystemClock().sleep(25)  # Longer than an empty node lives.
    launched, nodes = len(installation.launches()), len(installation.nodes())
    installation.cluster.apply(a_template("1500m"))
    wait_for("the template is read again", lambda: get_status(installation)["podTemplateGeneration"] == 2)

    assert first["podTemplateRef"] == {"name": "buffer"}
    assert first["podTemplateGeneration"] == 1
    assert first["replicas"] == 2
    assert (launched, nodes) == (2, 2)


def test_buffer_follows_the_replicas_of_its_workload(installation: Installation) -> None:
    ref = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}
    installation.cluster.apply(a_workload("web"))
    installation.start_replica("--feature-gates", "CapacityBuffer=true")
    installation.cluster.apply({**BUFFER, "spec": {"scalableRef": ref, "percentage": 50}})
    wait_for("the workload is resolved", lambda: get_status(installation).get("replicas") == 0)

    installation.scale("web", 2)
    wait_for("the buffer has one pod", lambda: get_status(installation)["replicas"] == 1, seconds=5)
    wait_for("two pods and the buffer have nodes", lambda: len(installation.nodes()) == 3, seconds=60)
    wait_for("the buffer is provisioned", lambda: is_provisioned(installation), seconds=15)

    assert len(installation.launches()) == 3
