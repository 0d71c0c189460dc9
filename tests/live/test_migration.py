"""Dovetail takes over a cluster from Karpenter under load and kills, and hands it back."""

import json
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from click.testing import CliRunner

from dovetail.cli.main import cli
from dovetail.core.nodepool.hash import HASH_VERSION
from dovetail.kube.leaderelection.elector import IDENTITY_MARK
from tests.live.cluster import wait_for
from tests.live.control_plane import ControlPlane
from tests.live.karpenter import Karpenter
from tests.live.replicas import DovetailProcess, Installation, a_deployment, run_installation
from tests.support.karpenter.hashes import NODECLASS, NODEPOOL, has_condition
from tests.support.karpenter.objects import FINALIZER, LEASE, NAMESPACE

NODES = {"default-new": "v6", "default-v5": "v5", "default-v4": "v4"}
"""NodeClaim → version of its node class hash, as different versions of Karpenter left them."""
PODS = 9


@pytest.fixture
def installation(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Installation]:
    with run_installation(control_plane, tmp_path) as installation:
        yield installation


@pytest.fixture
def karpenter(installation: Installation) -> Karpenter:
    """Karpenter with three nodes, each full of pods, and a Deployment that runs."""
    karpenter = Karpenter(installation)
    karpenter.install()
    karpenter.lead()
    karpenter.launch_nodes(NODES, instance_type="m5.xlarge")
    installation.cluster.apply(a_deployment("base", PODS), a_deployment("churn", 0))
    wait_for("the pods run on Karpenter's nodes", lambda: installation.ready_replicas("base") == PODS)
    return karpenter


_HASHES = {NODEPOOL.hash_key, NODEPOOL.version_key, NODECLASS.hash_key, NODECLASS.version_key}


class Snapshot:
    """State of the nodes that Karpenter launched."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self.uids = {claim["metadata"]["uid"] for claim in self._claims()}
        self.before = self._fields()

    def _claims(self) -> list[dict[str, Any]]:
        return [claim for claim in self._installation.claims() if claim["metadata"]["name"] in NODES]

    def _fields(self) -> dict[str, dict[str, Any]]:
        """Return the fields of NodeClaims and Nodes that either controller writes, but hashes."""
        claims = self._claims()
        providers = {claim["status"]["providerID"] for claim in claims}
        nodes = [node for node in self._installation.nodes() if node["spec"]["providerID"] in providers]
        return {obj["metadata"]["name"]: kept_fields(obj) for obj in (*claims, *nodes)}

    def is_untouched(self) -> bool:
        return self._fields() == self.before

    def assert_untouched(self) -> None:
        """Check that no node was replaced, deleted, tainted or drifted."""
        assert self._fields() == self.before
        running = {launch.claim_uid for launch in self._installation.running_instances()}
        assert self.uids <= running
        for claim in self._installation.claims():
            assert not has_condition(claim, "Drifted"), claim["metadata"]["name"]
            assert FINALIZER in claim["metadata"]["finalizers"]
            if claim["metadata"]["name"] in NODES:
                assert "deletionTimestamp" not in claim["metadata"]
        for node in self._installation.nodes():
            keys = [taint["key"] for taint in node["spec"].get("taints", ())]
            assert "karpenter.sh/disrupted" not in keys

    def assert_launched_once(self) -> None:
        launches = Counter(launch.claim_uid for launch in self._installation.launches())
        assert set(launches.values()) == {1}


def kept_fields(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a NodeClaim or Node that a change of the controller keeps."""
    meta, status = obj["metadata"], obj.get("status", {})
    kept = {name: meta.get(name) for name in ("uid", "labels", "finalizers", "ownerReferences")}
    annotations = meta.get("annotations", {})
    kept["annotations"] = {key: value for key, value in annotations.items() if key not in _HASHES}
    if obj["kind"] == "NodeClaim":
        kept["status"] = {
            name: status.get(name) for name in ("providerID", "nodeName", "imageID", "capacity")
        }
        # Consolidatable follows the pods of the node.
        conditions = {item["type"]: item["status"] for item in status["conditions"]}
        kept["conditions"] = {kind: conditions[kind] for kind in conditions if kind != "Consolidatable"}
    else:
        kept["taints"] = obj["spec"].get("taints") or []
    return kept


@contextmanager
def load(installation: Installation) -> Iterator[None]:
    """Create and delete pods for the duration of the block."""
    stop, failures = Event(), list[BaseException]()

    def churn() -> None:
        sizes = (4, 1, 6, 2)
        number = 0
        try:
            while not stop.wait(1.0):
                installation.scale("churn", sizes[number % len(sizes)])
                number += 1
        except AssertionError as error:
            failures.append(error)

    thread = Thread(target=churn)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failures, failures


def hash_versions(installation: Installation) -> set[tuple[str, str]]:
    """Return the versions of both hashes over all NodeClaims."""
    annotations = [claim["metadata"].get("annotations", {}) for claim in installation.claims()]
    return {
        (noted.get(NODEPOOL.version_key, ""), noted.get(NODECLASS.version_key, "")) for noted in annotations
    }


def has_begun(installation: Installation) -> bool:
    return any(HASH_VERSION in versions for versions in hash_versions(installation))


def has_taken_over(installation: Installation) -> bool:
    return hash_versions(installation) == {(HASH_VERSION, HASH_VERSION)}


def holder(installation: Installation) -> str:
    lease = installation.cluster.read("lease", LEASE, "-n", NAMESPACE)
    return str(lease["spec"].get("holderIdentity") or "")


def check(installation: Installation) -> dict[str, list[str]]:
    """Return the messages of ``dovetail migrate check`` by level."""
    arguments = ["migrate", "check", "--kubeconfig", str(installation.cluster.kubeconfig), "-o", "json"]
    report = json.loads(CliRunner().invoke(cli, arguments).stdout)
    levels: dict[str, list[str]] = {}
    for item in report["items"]:
        levels.setdefault(item["level"], []).append(f"{item['about']}: {item['text']}")
    return levels


def stop_cleanly(replica: DovetailProcess) -> None:
    replica.signal(signal.SIGTERM)
    assert replica.wait(seconds=15) == 0


def test_karpenter_hands_over_and_takes_back_without_replacing_a_node(
    installation: Installation, karpenter: Karpenter
) -> None:
    nodes = Snapshot(installation)

    # Karpenter runs: the check is read only and finds no drift; Dovetail refuses to start.
    levels = check(installation)
    assert "blocker" not in levels, levels
    assert [text for text in levels["ok"] if text.startswith("no drift starts: 3 NodeClaims")], levels
    assert [text for text in levels["ok"] if "held by karpenter-6d5f7c_0c1d" in text]
    refused = installation.start_replica()
    assert refused.wait(seconds=30) == 1
    assert "Karpenter runs in this cluster" in refused.tail()
    installation.replicas.remove(refused)
    assert hash_versions(installation) == {("v3", version) for version in NODES.values()}

    # Karpenter stops while it disrupts a node, and while a NodeClaim has no instance yet.
    karpenter.begin_disruption("default-v4")
    installation.cluster.kubectl("scale", "deployment/karpenter", "-n", NAMESPACE, "--replicas=0")
    wait_for("Karpenter has no pods", lambda: not has_karpenter_pods(installation))
    karpenter.create_claims("default-pending", instance_type="m5.xlarge")
    karpenter.lead("")

    # Take over under load, killed at the first hash, and again once all are replaced. A killed
    # leader holds its Lease for 15 s, so the killed processes have no leader election.
    killed = installation.start_replica("--disable-leader-election")
    with load(installation):
        wait_for("the first hash is replaced", lambda: has_begun(installation), seconds=30)
        killed.kill()
        killed.start()
        wait_for("all hashes are replaced", lambda: has_taken_over(installation), seconds=30)
        killed.kill()
        replica = installation.start_replica()
        wait_for("Dovetail leads", lambda: bool(replica.lines_with("became the leader")), seconds=30)
    installation.scale("churn", 3)
    wait_for(
        "all pods run",
        lambda: (installation.ready_replicas("base"), installation.ready_replicas("churn")) == (PODS, 3),
        seconds=40,
    )
    wait_for("each instance has a NodeClaim", lambda: is_consistent(installation), seconds=40)
    wait_for("the disruption is undone", nodes.is_untouched, seconds=40)
    nodes.assert_untouched()
    nodes.assert_launched_once()
    assert IDENTITY_MARK in holder(installation)

    # Hand back: the lease is free, and Karpenter replaces all hashes instead of nodes.
    stop_cleanly(replica)
    assert holder(installation) == ""
    karpenter.lead()
    assert karpenter.reconcile() == {}
    assert hash_versions(installation) == {("v3", "v6")}
    nodes.assert_untouched()

    # Take over again.
    karpenter.lead("")
    replica.start()
    wait_for("all hashes are replaced", lambda: has_taken_over(installation), seconds=30)
    nodes.assert_untouched()
    nodes.assert_launched_once()
    stop_cleanly(replica)


def has_karpenter_pods(installation: Installation) -> bool:
    selector = "app.kubernetes.io/name=karpenter"
    return bool(installation.cluster.read("pods", "-n", NAMESPACE, "-l", selector))


def is_consistent(installation: Installation) -> bool:
    """Return True if each NodeClaim has its instance and the other way round."""
    claims = installation.claims()
    launched = {claim["metadata"]["uid"] for claim in claims if claim.get("status", {}).get("providerID")}
    running = {launch.claim_uid for launch in installation.running_instances()}
    return launched == running and len(launched) == len(claims)
