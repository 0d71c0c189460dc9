"""``dovetail sandbox`` with the real kubectl, and how it begins and ends."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.host.clock import SystemClock

KUBECTL = shutil.which("kubectl", path=str(Path(sys.executable).parent))
READY = 60.0
"""Real seconds that a start may take on a busy host."""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


class Running:
    """A sandbox in a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.config = folder / "dovetail-sandbox.kubeconfig"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dovetail", "sandbox", *options],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_until_ready(self) -> "Running":
        end = time.monotonic() + READY
        while not self.config.exists():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end, "it did not start"
            time.sleep(0.05)  # noqa: TID251
        return self

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        assert KUBECTL is not None
        done = subprocess.run(
            [KUBECTL, *arguments],
            env={**os.environ, "KUBECONFIG": str(self.config), "HOME": str(self.folder)},
            cwd=self.folder,
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def items(self, *what: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(self.kubectl("get", *what, "-o", "json"))["items"]
        return items

    def until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + READY
        while not holds():
            assert time.monotonic() < end, what
            time.sleep(0.1)  # noqa: TID251

    def stop(self, how: signal.Signals = signal.SIGINT) -> tuple[int, str, str]:
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(*options: str) -> Running:
        started.append(Running(tmp_path, *options))
        return started[-1].wait_until_ready()

    yield start
    for process in started:
        process.process.kill()
        process.process.communicate()


def launched_nodes(cluster: Running) -> list[str]:
    return [item["metadata"]["name"] for item in cluster.items("nodes", "-l", "karpenter.sh/nodepool")]


def test_scaled_deployment_launches_and_terminates_nodes(sandbox: Callable[..., Running]) -> None:
    cluster = sandbox("--speed", "30")
    before = len(cluster.items("nodes"))

    cluster.kubectl("create", "deployment", "inflate", "--image=pause", "--replicas=0")
    cluster.kubectl("set", "resources", "deployment", "inflate", "--requests=cpu=1")
    cluster.kubectl("scale", "deployment", "inflate", "--replicas=10")
    output = cluster.kubectl("rollout", "status", "deployment/inflate", "--timeout=60s")
    filled = launched_nodes(cluster)
    cluster.kubectl("scale", "deployment", "inflate", "--replicas=0")
    cluster.until(lambda: not launched_nodes(cluster), "the empty nodes stayed")

    assert "successfully rolled out" in output
    assert filled
    assert len(cluster.items("nodes")) == before
    assert cluster.items("nodeclaims") == []


def test_controller_log_is_the_log_of_their_pod(sandbox: Callable[..., Running]) -> None:
    cluster = sandbox("--speed", "30")
    cluster.kubectl("create", "deployment", "inflate", "--image=pause", "--replicas=3")
    cluster.kubectl("set", "resources", "deployment", "inflate", "--requests=cpu=2")
    cluster.until(lambda: bool(cluster.items("nodeclaims")), "no node was launched")

    pod = cluster.kubectl("get", "pods", "-n", "karpenter", "-l", "karpenter=controller", "-oname")
    lines = cluster.kubectl("logs", "-n", "karpenter", pod.strip()).splitlines()

    messages = [json.loads(line)["message"] for line in lines]
    assert "found provisionable pod(s)" in messages
    assert "created nodeclaim" in messages


def test_deleted_node_is_drained_and_its_instance_terminated(sandbox: Callable[..., Running]) -> None:
    cluster = sandbox("--speed", "30")
    cluster.kubectl("create", "deployment", "inflate", "--image=pause", "--replicas=0")
    cluster.kubectl("set", "resources", "deployment", "inflate", "--requests=cpu=1")
    cluster.kubectl("scale", "deployment", "inflate", "--replicas=6")
    cluster.kubectl("rollout", "status", "deployment/inflate", "--timeout=60s")
    first = launched_nodes(cluster)

    cluster.kubectl("delete", "node", first[0], "--timeout=60s")

    assert first[0] not in launched_nodes(cluster)
    cluster.kubectl("rollout", "status", "deployment/inflate", "--timeout=60s")


def test_invalid_nodepool_is_rejected_with_every_reason(sandbox: Callable[..., Running]) -> None:
    cluster = sandbox()
    pool = json.loads(cluster.kubectl("get", "nodepool", "default", "-o", "json"))
    pool["metadata"] = {"name": "broken"}
    pool["spec"]["template"]["spec"]["expireAfter"] = "1 month"
    pool["spec"]["disruption"]["consolidateAfter"] = "-1s"

    with pytest.raises(AssertionError) as refused:
        cluster.kubectl("create", "-f", "-", given=json.dumps(pool))

    assert "expireAfter" in str(refused.value)
    assert "consolidateAfter" in str(refused.value)


def test_converted_old_manifests_can_be_applied(sandbox: Callable[..., Running], tmp_path: Path) -> None:
    old = tmp_path / "provisioner.yaml"
    old.write_text(
        """\
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: old
spec:
  requirements:
    - key: node.kubernetes.io/instance-type
      operator: In
      values: ["m5.large", "m5.2xlarge"]
    - key: topology.kubernetes.io/zone
      operator: In
      values: ["us-east-1a", "us-east-1b"]
    - key: karpenter.sh/capacity-type
      operator: In
      values: ["spot", "on-demand"]
  provider:
    instanceProfile: KarpenterNodeInstanceProfile-eks-karpenter-demo
  ttlSecondsAfterEmpty: 30
"""
    )
    converted = run("convert", "-f", str(old))
    cluster = sandbox("--speed", "30")

    cluster.kubectl("apply", "-f", "-", given=converted.stdout)
    cluster.kubectl("delete", "nodepool", "default")
    cluster.kubectl("create", "deployment", "inflate", "--image=pause", "--replicas=4")
    cluster.kubectl("set", "resources", "deployment", "inflate", "--requests=cpu=1")
    cluster.kubectl("rollout", "status", "deployment/inflate", "--timeout=60s")

    types = {
        item["metadata"]["labels"]["node.kubernetes.io/instance-type"]
        for item in cluster.items("nodes", "-l", "karpenter.sh/nodepool=old")
    }
    assert types
    assert types <= {"m5.large", "m5.2xlarge"}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_the_sandbox_cleanly(sandbox: Callable[..., Running], how: signal.Signals) -> None:
    cluster = sandbox()
    mode = cluster.config.stat().st_mode & 0o777

    code, out, err = cluster.stop(how)

    assert mode == 0o600
    assert code == 0
    assert "export KUBECONFIG=" in out
    assert "stopped" in err
    assert not cluster.config.exists()


def test_sandbox_listens_on_loopback_only_and_requires_its_token(sandbox: Callable[..., Running]) -> None:
    cluster = sandbox()
    config = cluster.config.read_text()

    assert "https://127.0.0.1:" in config
    with pytest.raises(AssertionError) as refused:
        cluster.kubectl("get", "nodes", "--token=wrong")
    assert "Unauthorized" in str(refused.value) or "logged in" in str(refused.value)


def test_another_kubeconfig_is_not_overwritten(tmp_path: Path) -> None:
    mine = tmp_path / "config"
    mine.write_text("apiVersion: v1\nkind: Config\n")

    result = run("sandbox", "--kubeconfig", str(mine))

    assert result.exit_code == 1
    assert "was not written by `dovetail sandbox`" in result.stderr
    assert mine.read_text() == "apiVersion: v1\nkind: Config\n"


def test_the_kubeconfig_of_a_running_sandbox_is_not_overwritten(sandbox: Callable[..., Running]) -> None:
    first = sandbox()
    before = first.config.read_text()

    result = run("sandbox", "--kubeconfig", str(first.config))

    assert result.exit_code == 1
    assert "belongs to a sandbox that is running" in result.stderr
    assert first.config.read_text() == before


def test_the_kubeconfig_of_a_killed_sandbox_is_overwritten(sandbox: Callable[..., Running]) -> None:
    killed = sandbox()
    before = killed.config.read_text()
    killed.stop(signal.SIGKILL)

    second = sandbox()
    second.until(lambda: second.config.read_text() != before, "the file was not replaced")

    assert second.kubectl("get", "nodes")


def test_its_api_server_and_its_nodes_have_the_same_version(sandbox: Callable[..., Running]) -> None:
    cluster = sandbox()

    server = json.loads(cluster.kubectl("get", "--raw", "/version"))["gitVersion"]
    kubelets = {node["status"]["nodeInfo"]["kubeletVersion"] for node in cluster.items("nodes")}
    assert kubelets == {server.partition("+")[0]}


def test_its_clock_is_not_ahead_of_the_real_clock(sandbox: Callable[..., Running]) -> None:
    cluster = sandbox()

    cluster.kubectl("create", "namespace", "new")

    created = cluster.kubectl("get", "namespace", "new", "-o", "jsonpath={.metadata.creationTimestamp}")
    now = SystemClock().now().timestamp()
    assert now - 60 < datetime.fromisoformat(created).timestamp() <= now


def test_all_errors_of_a_scenario_are_reported_at_once(tmp_path: Path) -> None:
    story = tmp_path / "story.yaml"
    story.write_text(
        """\
name: broken
about: all wrong
region: us-esat-1
seed: -1
home: {count: 0, instanceType: t3.medium}
manifests:
  - apiVersion: karpenter.sh/v1
    kind: NodePool
    metadata: {name: pool}
    spec: {template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws}}}}
phases:
  - name: one
    do: [{scale: {name: web}}, {explode: {}}]
    limit: 5 minutes
"""
    )

    result = run("sandbox", "--scenario", str(story), "--kubeconfig", str(tmp_path / "config"))

    lines = result.stderr.splitlines()
    assert result.exit_code == 1
    assert [line for line in lines if "story.yaml:3 region" in line]
    assert [line for line in lines if "story.yaml:4 seed" in line]
    assert [line for line in lines if "story.yaml:5 home.count" in line]
    assert [line for line in lines if "nodeClassRef.kind" in line]
    assert [line for line in lines if "phases[0].do[0].scale.replicas" in line]
    assert [line for line in lines if "phases[0].do[1]" in line]
    assert [line for line in lines if "phases[0].limit" in line]
    assert not (tmp_path / "config").exists()


def test_port_in_use_is_reported(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        result = run("sandbox", "--port", str(port), "--kubeconfig", str(tmp_path / "config"))

    assert result.exit_code == 1
    assert f"port {port} cannot be used" in result.stderr
    assert not (tmp_path / "config").exists()


FIXED = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: fixed}
spec:
  replicas: 2
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
"""


def test_feature_gate_can_be_enabled(sandbox: Callable[..., Running]) -> None:
    cluster = sandbox("--speed", "30", "--feature-gates", "StaticCapacity=true")

    cluster.kubectl("apply", "-f", "-", given=FIXED)

    cluster.until(lambda: len(launched_nodes(cluster)) == 2, "the pool did not get its nodes")


def test_unknown_feature_gate_gets_a_suggestion() -> None:
    result = run("sandbox", "--feature-gates", "NodeOverlays=true")

    assert result.exit_code == 1
    assert "'NodeOverlays' is not a feature gate; did you mean 'NodeOverlay'?" in result.stderr
