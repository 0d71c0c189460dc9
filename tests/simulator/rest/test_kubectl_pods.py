"""kubectl asks pods for what only real ones have: output, shells, ports."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dovetail.ports.api_resources import NAMESPACES
from tests.simulator.rest.objects import add, add_pod
from tests.simulator.rest.rest_server import Cluster, Kubectl, serve_cluster


def test_a_simulated_pod_says_that_it_has_no_output(cluster: Cluster, kubectl: Kubectl) -> None:
    add_pod(cluster, "web")

    said = kubectl("logs", "web")

    assert said == "pod default/web is simulated: no container runs, so it has no output.\n"


def test_what_needs_a_container_is_refused_in_plain_words(cluster: Cluster, kubectl: Kubectl) -> None:
    add_pod(cluster, "web")

    shell = kubectl.run("exec", "web", "--", "ls")
    attached = kubectl.run("attach", "web")
    forwarded = kubectl.run("port-forward", "web", "8080:80")

    assert "web is simulated: there is no container to run a command in" in shell.stderr
    assert "web is simulated: there is no container to attach to" in attached.stderr
    assert "web is simulated: there is no container that listens on a port" in forwarded.stderr


def test_the_controllers_pod_has_a_log_that_can_be_followed(tmp_path: Path) -> None:
    lines = ["found provisionable pod(s)", "created nodeclaim"]

    def logs(pod: dict[str, Any]) -> Sequence[str] | None:
        labels = pod["metadata"].get("labels") or {}
        return lines if labels.get("karpenter") == "controller" else None

    with serve_cluster(logs=logs) as cluster:
        kubectl = Kubectl(cluster, tmp_path)
        add(cluster, NAMESPACES, {"metadata": {"name": "karpenter"}})
        add_pod(cluster, "karpenter-1", labels={"karpenter": "controller"}, namespace="karpenter")

        pod = kubectl("get", "pods", "-n", "karpenter", "-l", "karpenter=controller", "-o", "name")
        whole = kubectl("logs", "-n", "karpenter", pod.strip())
        tail = kubectl("logs", "-n", "karpenter", pod.strip(), "--tail=1")
        with kubectl.start("logs", "-f", "-n", "karpenter", pod.strip()) as following:
            assert following.stdout is not None
            seen = [following.stdout.readline() for _ in range(2)]
            cluster.run(lambda: lines.append("launched nodeclaim"))
            seen.append(following.stdout.readline())
            cluster.stop()

    assert whole == "found provisionable pod(s)\ncreated nodeclaim\n"
    assert tail == "created nodeclaim\n"
    assert seen[-1] == "launched nodeclaim\n"
    assert following.returncode == 0
