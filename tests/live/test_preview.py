"""Previews of changes to a live cluster, compared with what really happens then."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.live.chaos.api import PODS
from tests.live.cluster import wait_for
from tests.live.control_plane import ControlPlane
from tests.live.replicas import Installation, a_deployment, a_pool, run_installation

_LARGE = [
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.2xlarge"]},
]
_QUIET = 20.0
"""Seconds without a change of nodes and pods after which a cluster counts as settled."""


class Outcome(msgspec.Struct, frozen=True):
    """Result of a change, previewed or measured in the cluster."""

    nodes: int
    price: float
    evictions: int
    pods_without_node: int


@pytest.fixture(scope="module")
def installation(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    with run_installation(control_plane, tmp_path_factory.mktemp("installation")) as installation:
        installation.cluster.apply(a_deployment("web", 12), a_deployment("db", 3, cpu="2"))
        installation.start_replica()
        wait_for("all pods are ready", lambda: installation.ready_replicas("web") == 12, seconds=120)
        wait_for("all pods are ready", lambda: installation.ready_replicas("db") == 3, seconds=120)
        settle(installation)
        yield installation


def preview(installation: Installation, folder: Path, *objects: dict[str, Any]) -> Outcome:
    """Run ``dovetail preview`` on the live cluster."""
    file = folder / "changed.json"
    file.write_text(json.dumps({"kind": "List", "items": list(objects)}))
    command = [sys.executable, "-m", "dovetail", "preview", "-f", str(file), "-o", "json"]
    command += ["--region", "us-east-1", "--kubeconfig", str(installation.cluster.kubeconfig)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    return Outcome(
        nodes=report["after"]["nodes"],
        price=report["after"]["price_per_hour"],
        evictions=report["course"]["evictions"],
        pods_without_node=report["after"]["pods_without_node"],
    )


def count_evictions(installation: Installation) -> int:
    """Count the Events Evicted."""
    events = installation.cluster.read("events", "-n", "default", "--field-selector=reason=Evicted")
    return sum(event.get("count") or 1 for event in events)


def measure(installation: Installation, evicted_before: int) -> Outcome:
    pods = installation.cluster.read("pods", "-n", "default")
    active = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    return Outcome(
        nodes=len(installation.nodes()),
        price=round(sum(launch.price for launch in installation.running_instances()), 6),
        evictions=count_evictions(installation) - evicted_before,
        pods_without_node=sum(not pod["spec"].get("nodeName") for pod in active),
    )


def is_going(claim: dict[str, Any]) -> bool:
    conditions = claim.get("status", {}).get("conditions", ())
    is_drifted = any(entry["type"] == "Drifted" and entry["status"] == "True" for entry in conditions)
    return is_drifted or "deletionTimestamp" in claim["metadata"]


def settle(installation: Installation, *, seconds: float = 240.0) -> None:
    """Wait until nodes and pods have not changed for a while."""
    state: list[Any] = [None, time.monotonic()]

    def is_quiet() -> bool:
        pods = installation.get(PODS)["items"]
        current = (
            sorted(node["metadata"]["name"] for node in installation.nodes()),
            sorted((pod["metadata"]["name"], pod["spec"].get("nodeName", "")) for pod in pods),
            sorted(claim["metadata"]["name"] for claim in installation.claims()),
        )
        is_complete = len(current[0]) == len(current[2]) == len(installation.running_instances()) and not any(
            map(is_going, installation.claims())
        )
        if current != state[0] or not is_complete:
            state[:] = [current, time.monotonic()]
        return time.monotonic() - state[1] > _QUIET

    wait_for("nothing changes any more", is_quiet, seconds=seconds)


def a_large_pool(*, nodes: str = "100%", **spec: Any) -> dict[str, Any]:
    """A NodePool of another instance type, of which so many nodes may be disrupted at once."""
    pool = a_pool(**spec)
    pool["spec"]["template"]["spec"]["requirements"] = _LARGE
    pool["spec"]["disruption"]["budgets"] = [{"nodes": nodes}]
    return pool


CHANGES: dict[str, Callable[[], tuple[dict[str, Any], ...]]] = {
    "more replicas": lambda: (a_deployment("web", 24),),
    "more replicas than the limits allow": lambda: (a_pool(limits={"cpu": "38"}), a_deployment("web", 60)),
    "fewer replicas": lambda: (a_deployment("web", 2),),
    # One node at a time: with several at once, the outcome depends on which drift is seen first.
    "other instance types": lambda: (a_large_pool(nodes="1"),),
}
"""In this order, each on top of those before it."""


@pytest.mark.parametrize("change", CHANGES.values(), ids=[name.replace(" ", "-") for name in CHANGES])
def test_a_change_to_a_live_cluster_has_the_previewed_outcome(
    installation: Installation, tmp_path: Path, change: Callable[[], tuple[dict[str, Any], ...]]
) -> None:
    evicted = count_evictions(installation)

    previewed = preview(installation, tmp_path, *change())
    installation.cluster.apply(*change())
    settle(installation)
    happened = measure(installation, evicted)

    assert previewed.nodes == happened.nodes
    assert previewed.price == pytest.approx(happened.price, rel=0.02)
    assert previewed.pods_without_node == happened.pods_without_node
    assert abs(previewed.evictions - happened.evictions) <= max(2, round(0.15 * happened.evictions))
