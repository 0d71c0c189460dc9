"""The control plane of the live tests: start, restart and clean-up."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.cluster import wait_for
from tests.live.control_plane import ControlPlane
from tests.live.fixtures import running_control_plane
from tests.live.replicas import a_deployment

_ROOT = Path(__file__).parents[2]


def is_running(pid: int) -> bool:
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


def test_pods_of_a_deployment_are_created_and_bound_while_nodes_have_room(
    control_plane: ControlPlane,
) -> None:
    control_plane.apply(a_node("node-1"))

    control_plane.apply(a_deployment("web", replicas=3))

    def bound() -> list[bool]:
        pods = control_plane.read("pods", "-l", "app=web")
        return sorted("nodeName" in pod["spec"] for pod in pods)

    wait_for("two of three pods are bound", lambda: bound() == [False, True, True])


def test_objects_survive_an_api_server_restart(control_plane: ControlPlane) -> None:
    control_plane.kubectl("create", "configmap", "kept", "--from-literal=a=b")

    control_plane.restart_apiserver()

    assert control_plane.read("configmap", "kept")["data"] == {"a": "b"}


def test_after_compaction_old_resource_versions_are_rejected(control_plane: ControlPlane) -> None:
    old = control_plane.read("configmap", "kept")["metadata"]["resourceVersion"]
    control_plane.kubectl("create", "configmap", "newer")

    control_plane.restart_apiserver(compact=True)

    path = f"/api/v1/configmaps?resourceVersion={old}&resourceVersionMatch=Exact"
    result = control_plane.try_kubectl("get", f"--raw={path}")
    assert "too old" in result.stderr


def test_rbac_denies_users_without_a_role(control_plane: ControlPlane) -> None:
    user = control_plane.kubeconfig_for("user")

    result = control_plane.try_kubectl("get", "secrets", "-A", kubeconfig=user)

    assert "forbidden" in result.stderr


def test_all_processes_end_when_a_test_fails(controlplane_binary_path: Path, tmp_path: Path) -> None:
    pids: list[int] = []

    def failing_test() -> None:
        with running_control_plane(controlplane_binary_path, tmp_path) as control_plane:
            pids.extend(process.pid for process in control_plane.processes)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing_test()

    assert len(pids) == 4
    assert not any(is_running(pid) for pid in pids)
    assert not (tmp_path / "etcd").exists()


_SCRIPT = """
import sys, signal
from pathlib import Path
from tests.live.control_plane import ControlPlane

control_plane = ControlPlane(Path(sys.argv[1]), Path(sys.argv[2]))
control_plane.etcd.start()
print(control_plane.etcd.pid, flush=True)
signal.pause()
"""


def test_processes_end_when_the_test_run_is_killed(controlplane_binary_path: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _SCRIPT, str(controlplane_binary_path), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as run:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        was_running = is_running(pid)

        run.kill()

    wait_for("etcd has exited", lambda: not is_running(pid), seconds=20)
    assert was_running
