"""kubectl on workloads: rollout status, rollback, drain."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dovetail.ports.api_resources import DAEMON_SETS, STATEFUL_SETS
from tests.simulator.rest.rest_server import Cluster, Kubectl, serve_cluster
from tests.support.simulator.controller_manager import WorkloadCluster, a_workload, images


class Desktop:
    """A user's kubectl, and a cluster whose time passes between commands."""

    def __init__(self, served: Cluster, kubectl: Kubectl, world: WorkloadCluster) -> None:
        self._served = served
        self._kubectl = kubectl
        self.world = world

    def __call__(self, command: str) -> str:
        """Run a command, then let it take effect."""
        printed = self._kubectl(*command.split())
        self._served.run(lambda: self.world.wait(60))
        return printed


@pytest.fixture
def desktop(tmp_path: Path) -> Iterator[Desktop]:
    world = WorkloadCluster("n1", "n2")
    with serve_cluster(api=world) as served:
        yield Desktop(served, Kubectl(served, tmp_path), world)


def test_a_deployment_is_created_scaled_updated_rolled_back_restarted_and_deleted(desktop: Desktop) -> None:
    desktop("create deployment web --image=app:1 --replicas=3")
    desktop("scale deployment web --replicas=5")
    scaled = desktop("rollout status deployment web")
    desktop("set image deployment/web app=app:2")
    updated = desktop("rollout status deployment web --watch=false")
    after_update = images(desktop.world.pods())
    history = desktop("rollout history deployment web")
    desktop("rollout undo deployment web")
    after_undo = images(desktop.world.pods())
    before = {pod["metadata"]["uid"] for pod in desktop.world.pods()}
    desktop("rollout restart deployment web")
    after = {pod["metadata"]["uid"] for pod in desktop.world.pods()}
    desktop("delete deployment web")

    assert "successfully rolled out" in scaled
    assert "successfully rolled out" in updated
    assert after_update == ["app:2"] * 5
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2"]
    assert after_undo == ["app:1"] * 5
    assert before.isdisjoint(after)
    assert len(after) == 5
    assert desktop.world.pods() == []


def test_a_paused_deployment_waits_for_resume(desktop: Desktop) -> None:
    desktop("create deployment web --image=app:1 --replicas=2")
    desktop("rollout pause deployment web")
    desktop("set image deployment/web app=app:2")
    paused = images(desktop.world.pods())
    desktop("rollout resume deployment web")

    assert paused == ["app:1"] * 2
    assert images(desktop.world.pods()) == ["app:2"] * 2


@pytest.mark.parametrize("kind", ["statefulset", "daemonset"])
def test_statefulsets_and_daemonsets_are_updated_and_rolled_back(desktop: Desktop, kind: str) -> None:
    resource = {"statefulset": STATEFUL_SETS, "daemonset": DAEMON_SETS}[kind]
    size = {"replicas": 2} if kind == "statefulset" else {}
    desktop.world.create(resource, a_workload(**size))
    desktop.world.wait(60)

    desktop(f"set image {kind}/web main=app:2")
    updated = desktop(f"rollout status {kind} web --watch=false")
    after_update = images(desktop.world.pods())
    desktop(f"rollout undo {kind} web")
    undone = desktop(f"rollout status {kind} web --watch=false")

    assert after_update == ["app:2"] * 2
    assert "complete" in updated or "successfully rolled out" in updated
    assert "complete" in undone or "successfully rolled out" in undone
    assert images(desktop.world.pods()) == ["app:1"] * 2


def test_a_drain_respects_the_budget_and_pods_are_replaced_elsewhere(desktop: Desktop) -> None:
    desktop("create deployment web --image=app:1 --replicas=4")
    desktop("create poddisruptionbudget web --selector=app=web --max-unavailable=4")

    desktop("cordon n1")
    drained = desktop("drain n1 --ignore-daemonsets --timeout=1s --disable-eviction=false"
                      " --grace-period=0")  # fmt: skip

    assert "drained" in drained
    assert {pod["spec"]["nodeName"] for pod in desktop.world.pods()} <= {"n1", "n2"}
    assert len(desktop.world.pods()) == 4
