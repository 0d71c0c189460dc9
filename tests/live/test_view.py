"""``dovetail top`` and ``dovetail dashboard`` on a real control plane."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.dashboard.test_command import Served
from tests.live.cluster import wait_for
from tests.live.control_plane import ControlPlane
from tests.live.replicas import Installation, a_deployment, run_installation


def top(kubeconfig: Path, *options: str) -> str:
    command = [sys.executable, "-m", "dovetail", "top", "--kubeconfig", str(kubeconfig), *options]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture
def dashboard(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path, "dashboard", "--kubeconfig", str(control_plane.kubeconfig))
    yield served
    served.process.kill()
    served.process.communicate()


@pytest.fixture
def installation(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Installation]:
    with run_installation(control_plane, tmp_path) as installation:
        yield installation


def test_a_cluster_without_crds_is_shown_with_the_kinds_that_are_missing(control_plane: ControlPlane) -> None:
    document = json.loads(top(control_plane.kubeconfig, "-o", "json"))

    notices = document["notices"]
    assert sorted(notices) == ["no-nodes", "not-served"]
    for kind in ("nodepools.karpenter.sh/v1", "nodeclaims.karpenter.sh/v1"):
        assert kind in notices["not-served"]["message"]


def test_a_node_appears_fills_drains_and_goes_while_the_view_is_open(
    installation: Installation, dashboard: Served
) -> None:
    installation.cluster.apply(a_deployment("web", 3))
    installation.start_replica()
    states: dict[str, list[str]] = {}

    def observe() -> dict[str, Any]:
        view = dashboard.view()
        for key, node in view["nodes"].items():
            seen = states.setdefault(key, [])
            if seen[-1:] != [node["state"]]:
                seen.append(node["state"])
        return view

    def is_full() -> bool:
        nodes = observe()["nodes"].values()
        return any(node["state"] == "ready" and len(pods_of(node)) == 3 for node in nodes)

    wait_for("a node with three pods is shown", is_full, seconds=120)
    table = top(installation.cluster.kubeconfig, "--once")
    (node,) = [node for node in observe()["nodes"].values() if node.get("nodePool")]
    installation.cluster.kubectl("delete", "node", node["name"], "--wait=false")
    wait_for("the node is gone", lambda: node["key"] not in observe()["nodes"], seconds=120)
    view = observe()

    assert any(line.startswith(node["name"]) and node["instanceType"] in line for line in table.splitlines())
    assert {"ready", "draining"} <= set(states[node["key"]])
    assert view["totals"]["evictions"] == 3
    kinds = {(each["kind"], *each.get("nodeClaims", ())) for each in view["decisions"].values()}
    assert {("launched", node["key"]), ("deleted", node["key"])} <= kinds
    assert dashboard.stop() == 0


def test_an_account_that_may_list_nodes_only_sees_what_is_missing_and_what_grants_it(
    control_plane: ControlPlane,
) -> None:
    cluster = control_plane
    cluster.kubectl("create", "serviceaccount", "reader", "-n", "default")
    cluster.kubectl("create", "clusterrole", "reader", "--verb=list,watch", "--resource=nodes,pods")
    cluster.kubectl(
        "create", "clusterrolebinding", "reader", "--clusterrole=reader", "--serviceaccount=default:reader"
    )
    kubeconfig = cluster.kubeconfig_for_account("reader", "default")

    before = top(kubeconfig, "--once")
    remedies = [line.partition(" (")[2] for line in before.splitlines() if line.startswith("note: no rights")]
    for number, remedy in enumerate(remedies):
        words = remedy.partition(", and bind it")[0].replace("dovetail-view", f"granted-{number}").split()[1:]
        cluster.kubectl(*words)
        role = f"granted-{number}"
        cluster.kubectl(
            "create", "clusterrolebinding", role, f"--clusterrole={role}", "--serviceaccount=default:reader"
        )
    after = json.loads(top(kubeconfig, "-o", "json"))

    assert "no rights to list nodepools.karpenter.sh: nodes are shown without keep reasons" in before
    assert "no rights to list nodes" not in before
    assert not [code for code in after["notices"] if code.startswith("forbidden")]


def pods_of(node: dict[str, Any]) -> list[str]:
    workloads = [workload for workload in node.get("workloads", ()) if workload["name"] == "web"]
    return [pod["name"] for workload in workloads for pod in workload["pods"]]
