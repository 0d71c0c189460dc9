"""The control plane itself: it comes up whole, survives restarts, and leaves nothing behind."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.cluster import wait_for
from tests.live.fixtures import running_control_plane
from tests.live.plane import ControlPlane
from tests.live.replicas import a_deployment

_ROOT = Path(__file__).parents[2]


def runs(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path("/proc", str(pid), "status").read_text()
    except FileNotFoundError:
        return False


def a_node(name: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {
            "capacity": {"cpu": "2", "memory": "4Gi", "pods": "10"},
            "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def test_a_deployments_pods_are_made_and_bound_as_far_as_nodes_have_room(
    control_plane: ControlPlane,
) -> None:
    control_plane.apply(a_node("one"))

    control_plane.apply(a_deployment("web", replicas=3))

    def placed() -> list[bool]:
        pods = control_plane.read("pods", "-l", "app=web")
        return sorted("nodeName" in pod["spec"] for pod in pods)

    wait_for("two of three pods are bound", lambda: placed() == [False, True, True])


def test_the_api_server_comes_back_with_what_it_had(control_plane: ControlPlane) -> None:
    control_plane.kubectl("create", "configmap", "kept", "--from-literal=a=b")

    control_plane.restart_apiserver()

    assert control_plane.read("configmap", "kept")["data"] == {"a": "b"}


def test_after_compaction_the_api_server_knows_no_old_versions(
    control_plane: ControlPlane,
) -> None:
    old = control_plane.read("configmap", "kept")["metadata"]["resourceVersion"]
    control_plane.kubectl("create", "configmap", "newer")

    control_plane.restart_apiserver(forgetting=True)

    asked = f"/api/v1/configmaps?resourceVersion={old}&resourceVersionMatch=Exact"
    refused = control_plane.try_kubectl("get", f"--raw={asked}")
    assert "too old" in refused.stderr


def test_rbac_holds_those_who_are_not_administrators(control_plane: ControlPlane) -> None:
    somebody = control_plane.kubeconfig_for("somebody")

    refused = control_plane.try_kubectl("get", "secrets", "-A", kubeconfig=somebody)

    assert "forbidden" in refused.stderr


def test_nothing_runs_any_more_when_a_test_has_failed(
    controlplane_program: Path, tmp_path: Path
) -> None:
    pids: list[int] = []

    def failing_test() -> None:
        with running_control_plane(controlplane_program, tmp_path) as plane:
            pids.extend(process.pid for process in plane.processes)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing_test()

    assert len(pids) == 4
    assert not any(runs(pid) for pid in pids)
    assert not (tmp_path / "etcd").exists()


_KILLED = """
import sys, signal
from pathlib import Path
from tests.live.plane import ControlPlane
from tests.live.replicas import a_deployment

plane = ControlPlane(Path(sys.argv[1]), Path(sys.argv[2]))
plane.etcd.start()
print(plane.etcd.pid, flush=True)
signal.pause()
"""


def test_nothing_outlives_a_test_run_that_is_killed(
    controlplane_program: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", _KILLED, str(controlplane_program), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as run:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        began = runs(pid)

        run.kill()

    wait_for("etcd has ended, too", lambda: not runs(pid), seconds=20)
    assert began
