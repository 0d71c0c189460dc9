"""``dovetail run`` as a process of its own: a real API server's protocol, AWS as moto plays it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any

import boto3
import pytest
import yaml
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.ports.api_resources import EC2_NODE_CLASSES, LEASES, NODE_CLAIMS, NODE_POOLS, PODS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.rest.kubeconfig import kubeconfig
from tests.simulator.rest.serving import TOKEN, Cluster, a_cluster
from tests.support.moto.server import MotoAws, moto_aws
from tests.support.moto_nodeclass import REGION, Account

PATIENCE = 150.0
ON_A_BUSY_MACHINE = 20.0
"""Seconds in which Python has loaded everything; on an idle one it takes one or two."""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
}
NODE_CLASS = {
    "metadata": {"name": "default"},
    "spec": {
        "amiFamily": "Custom",
        "amiSelectorTerms": [{"id": "ami-mine"}],
        "subnetSelectorTerms": [{"tags": {"team": "a"}}],
        "securityGroupSelectorTerms": [{"tags": {"team": "a"}}],
        "role": "nodes",
    },
}
NODE_POOL = {
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {
                    "group": "karpenter.k8s.aws",
                    "kind": "EC2NodeClass",
                    "name": "default",
                },
                "requirements": [
                    {
                        "key": "node.kubernetes.io/instance-type",
                        "operator": "In",
                        "values": ["m5.large", "m5.xlarge", "c5.xlarge"],
                    },
                    {
                        "key": "karpenter.sh/capacity-type",
                        "operator": "In",
                        "values": ["on-demand"],
                    },
                ],
            }
        }
    },
}
POD = {
    "metadata": {"name": "waits"},
    "spec": {
        "containers": [
            {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}},
        ]
    },
}
NO_PORTS = {"METRICS_PORT": "0", "HEALTH_PROBE_PORT": "0"}
"""Tests run beside each other on one machine."""
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoAws]:
    with moto_aws() as running:
        yield running


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with a_cluster(api=ApiServer(now=lambda: datetime.now(UTC))) as running:  # noqa: TID251
        yield running


class Running:
    """The process, what it says, and the world it works in."""

    def __init__(self, cluster: Cluster, home: Path, *options: str, **environ: str) -> None:
        self.cluster = cluster
        config = home / "kubeconfig"
        config.write_text(yaml.safe_dump(kubeconfig(cluster.url, TOKEN, cluster.certificate)))
        self.lines: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dovetail", "run", "--cluster-name", "demo", *options],
            env={"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(config)}
            | NO_PORTS
            | environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def said(self, message: str) -> bool:
        return any(line["message"] == message for line in tuple(self.lines))

    def until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert self.process.poll() is None, self.end()
            assert time.monotonic() < end, (what, self.lines)
            time.sleep(0.05)  # noqa: TID251

    def end(self) -> tuple[int, str]:
        """Wait for it to end by itself; returns its code and what it complained of."""
        self.process.wait(timeout=PATIENCE)
        self._reader.join()
        assert self.process.stderr is not None
        return self.process.returncode, self.process.stderr.read()


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def begin(*options: str, **environ: str) -> Running:
        started.append(Running(cluster, tmp_path, *options, **environ))
        return started[-1]

    yield begin
    for one in started:
        one.process.kill()
        one.process.wait()
        for stream in (one.process.stdout, one.process.stderr):
            if stream is not None:
                stream.close()


def test_an_instance_is_bought_for_a_pod_and_given_back_and_sigterm_ends_it_soon(
    cluster: Cluster, moto: MotoAws, start: Callable[..., Running]
) -> None:
    account = Account(moto)
    session = boto3.Session("test", "test", region_name=REGION)
    ec2 = session.client("ec2", endpoint_url=moto.url)
    account.network(ec2)
    account.role(session.client("iam", endpoint_url=moto.url))
    session.client("sqs", endpoint_url=moto.url).create_queue(QueueName="warnings")
    account.image("ami-mine", name="mine", owner_alias=None, owner_id="123456789012")
    cluster.call(lambda: cluster.api.create(EC2_NODE_CLASSES, NODE_CLASS))
    cluster.call(lambda: cluster.api.create(NODE_POOLS, NODE_POOL))
    cluster.call(lambda: cluster.api.create(PODS, POD, "default"))
    status = {"status": {"phase": "Pending", "conditions": [UNSCHEDULABLE]}}
    cluster.call(
        lambda: cluster.api.patch(
            PODS, "waits", status, PatchType.MERGE, "default", subresource="status"
        )
    )

    def claims() -> list[Any]:
        return cluster.call(lambda: list(cluster.api.list(NODE_CLAIMS).items))

    def running() -> list[str]:
        told = ec2.describe_instances(
            Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        )
        return [one["InstanceId"] for group in told["Reservations"] for one in group["Instances"]]

    process = start(
        "--cluster-endpoint=https://demo.example.com",
        "--interruption-queue=warnings",
        AWS_ENDPOINT_URL=moto.url,
        BATCH_IDLE_DURATION="200ms",
        **CREDENTIALS,
    )
    process.until(
        lambda: any(one.get("status", {}).get("providerID") for one in claims()), "nothing bought"
    )
    claim, bought = claims()[0], running()
    cluster.call(lambda: cluster.api.delete(PODS, "waits", "default"))
    cluster.call(lambda: cluster.api.delete(NODE_CLAIMS, claim["metadata"]["name"]))
    process.until(lambda: not claims() and not running(), "the instance stayed")
    began = time.monotonic()
    process.process.send_signal(signal.SIGTERM)
    code, complaint = process.end()

    assert claim["status"]["providerID"].endswith(bought[0])
    assert len(bought) == 1
    assert (code, complaint) == (0, "")
    assert time.monotonic() - began < 5
    assert process.said("created nodeclaim")
    assert [line for line in process.lines if line["message"] == "reconciler error"] == []
    assert not process.said("stopping in the middle of something; it is resumed at the next start")
    assert process.lines[-1]["message"] == "stopped"
    assert {"level", "time", "logger", "message"} <= process.lines[0].keys()


def test_without_a_kubeconfig_all_places_that_were_tried_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    result = run("run", "--cluster-name", "demo")

    assert result.exit_code == 1
    assert "not in $KUBECONFIG" in result.stderr


def test_without_a_region_or_credentials_or_a_way_to_aws_it_ends_with_one_sentence(
    start: Callable[..., Running],
) -> None:
    bare = {"AWS_EC2_METADATA_DISABLED": "true"}
    nobody = start(**bare)
    nameless = start(AWS_REGION=REGION, **bare)

    for process, told in ((nobody, "no AWS region is known"), (nameless, "credentials")):
        code, complaint = process.end()
        assert code == 1
        assert len(complaint.strip().splitlines()) == 1
        assert told in complaint


def said_of(url: str, tmp_path: Path) -> tuple[int, str, float]:
    """Run with a kubeconfig that leads there; return how it ended, and after how many seconds."""
    config = tmp_path / "config"
    config.write_text(yaml.safe_dump(kubeconfig(url, "x", "")))
    began = time.monotonic()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "dovetail", "run", "--cluster-name", "demo"),
            *("--kubeconfig", str(config), "--metrics-port", "0", "--health-probe-port", "0"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stderr, time.monotonic() - began


def test_a_server_that_is_not_there_is_said_within_seconds(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{closed.getsockname()[1]}"

    code, told, took = said_of(url, tmp_path)

    assert (code, len(told.splitlines())) == (1, 1)
    assert f"{url} does not answer" in told
    assert took < ON_A_BUSY_MACHINE


def test_a_server_that_takes_a_connection_and_says_nothing_is_given_up_within_seconds(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"

        code, told, took = said_of(url, tmp_path)

    assert (code, len(told.splitlines())) == (1, 1)
    assert f"{url} gave no answer within 7s" in told
    assert took < 7 + ON_A_BUSY_MACHINE


def test_beside_karpenter_it_does_not_start(
    cluster: Cluster, start: Callable[..., Running]
) -> None:
    now = datetime.now(UTC)  # noqa: TID251
    spec = {"holderIdentity": "karpenter-1", "renewTime": f"{now:%Y-%m-%dT%H:%M:%S.%f}Z"}
    lease = {"metadata": {"name": "karpenter-leader-election"}, "spec": spec}
    cluster.call(lambda: cluster.api.create(LEASES, lease, "kube-system"))

    code, complaint = start(**CREDENTIALS).end()

    assert code == 1
    assert "Karpenter runs in this cluster (karpenter-1 holds the lease kube-system/" in complaint


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--batch-idle-duration=1 second", "is no duration"),
        ("--batch-max-duration=0s", "is no duration"),
        ("--cluster-endpoint=demo.example.com", "no absolute URL"),
        ("--cluster-ca-bundle=???", "no base64"),
        ("--feature-gates=NodeRepair", "neither"),
        ("--preference-policy=Maybe", "'Respect', 'Ignore'"),
        ("--log-level=warn", "'debug', 'info', 'error'"),
        ("--reserved-enis=-1", "x>=0"),
    ],
)
def test_a_mistaken_option_is_said(option: str, told: str) -> None:
    result = run("run", "--cluster-name", "demo", option)

    assert result.exit_code == 1
    assert told in result.stderr
