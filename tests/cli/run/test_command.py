"""``dovetail run`` as a process, with an API server over HTTPS and AWS in moto."""

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
from dovetail.simulator.rest.sandbox import encode_kubeconfig
from tests.simulator.rest.rest_server import TOKEN, Cluster, serve_cluster
from tests.support.aws.nodeclass_account import REGION, Account
from tests.support.moto.instance_types import few_instance_types
from tests.support.moto.middleware import ScriptedError
from tests.support.moto.server import MotoAws, moto_aws

TIMEOUT = 150.0
"""Seconds."""
START_TIME = 20.0
"""Seconds to import everything on a busy host; an idle one takes one or two."""


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
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {
                        "key": "node.kubernetes.io/instance-type",
                        "operator": "In",
                        "values": ["m5.large", "m5.xlarge", "c5.xlarge"],
                    },
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                ],
            }
        }
    },
}
POD = {
    "metadata": {"name": "waits"},
    "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}]},
}
NO_PORTS = {"METRICS_PORT": "0", "HEALTH_PROBE_PORT": "0"}
"""Several tests run at the same time on one host."""
OPTIONAL_OPERATIONS = frozenset({"DescribeAvailabilityZones", "GetCallerIdentity"})
"""Operations that Karpenter does not call, so that its users may not have them."""
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoAws]:
    with few_instance_types(), moto_aws() as running:
        yield running


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with serve_cluster(api=ApiServer(now=lambda: datetime.now(UTC))) as running:  # noqa: TID251
        yield running


class Running:
    """The process, its log lines and its cluster."""

    def __init__(self, cluster: Cluster, home: Path, *options: str, **environ: str) -> None:
        self.cluster = cluster
        config = home / "kubeconfig"
        config.write_text(yaml.safe_dump(encode_kubeconfig(cluster.url, TOKEN, cluster.certificate)))
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

    def has_logged(self, message: str) -> bool:
        return any(line["message"] == message for line in tuple(self.lines))

    def wait_until(self, condition: Callable[[], bool], error: str) -> None:
        end = time.monotonic() + TIMEOUT
        while not condition():
            assert self.process.poll() is None, self.end()
            assert time.monotonic() < end, (error, self.lines)
            time.sleep(0.05)  # noqa: TID251

    def end(self) -> tuple[int, str]:
        """Wait for the process to exit; return its exit code and stderr."""
        self.process.wait(timeout=TIMEOUT)
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
    for running in started:
        running.process.kill()
        running.process.wait()
        for stream in (running.process.stdout, running.process.stderr):
            if stream is not None:
                stream.close()


def prepare(cluster: Cluster, moto: MotoAws) -> Any:
    """Create an account, a NodePool and an unschedulable pod; return a client of EC2."""
    account = Account(moto)
    session = boto3.Session("test", "test", region_name=REGION)
    ec2 = session.client("ec2", endpoint_url=moto.url)
    account.network(ec2)
    account.role(session.client("iam", endpoint_url=moto.url))
    session.client("sqs", endpoint_url=moto.url).create_queue(QueueName="warnings")
    account.image("ami-mine", name="mine", owner_alias=None, owner_id="123456789012")
    cluster.run(lambda: cluster.api.create(EC2_NODE_CLASSES, NODE_CLASS))
    cluster.run(lambda: cluster.api.create(NODE_POOLS, NODE_POOL))
    cluster.run(lambda: cluster.api.create(PODS, POD, "default"))
    status = {"status": {"phase": "Pending", "conditions": [UNSCHEDULABLE]}}
    cluster.run(
        lambda: cluster.api.patch(PODS, "waits", status, PatchType.MERGE, "default", subresource="status")
    )
    return ec2


@pytest.mark.parametrize("forbidden", [frozenset(), OPTIONAL_OPERATIONS], ids=["", "optional-forbidden"])
def test_instance_is_launched_for_a_pod_and_terminated_and_sigterm_stops_the_process(
    cluster: Cluster, moto: MotoAws, start: Callable[..., Running], forbidden: frozenset[str]
) -> None:
    ec2 = prepare(cluster, moto)
    moto.middleware.is_forbidden = lambda operation: operation in forbidden

    def claims() -> list[Any]:
        return cluster.run(lambda: list(cluster.api.list(NODE_CLAIMS).items))

    def running() -> list[str]:
        response = ec2.describe_instances(
            Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        )
        return [
            instance["InstanceId"]
            for reservation in response["Reservations"]
            for instance in reservation["Instances"]
        ]

    process = start(
        "--cluster-endpoint=https://demo.example.com",
        "--interruption-queue=warnings",
        AWS_ENDPOINT_URL=moto.url,
        BATCH_IDLE_DURATION="200ms",
        **CREDENTIALS,
    )
    process.wait_until(
        lambda: any(claim.get("status", {}).get("providerID") for claim in claims()), "nothing was launched"
    )
    claim, instance_ids = claims()[0], running()
    cluster.run(lambda: cluster.api.delete(PODS, "waits", "default"))
    cluster.run(lambda: cluster.api.delete(NODE_CLAIMS, claim["metadata"]["name"]))
    process.wait_until(lambda: not claims() and not running(), "the instance was not terminated")
    began = time.monotonic()
    process.process.send_signal(signal.SIGTERM)
    code, stderr = process.end()

    assert claim["status"]["providerID"].endswith(instance_ids[0])
    assert claim["metadata"]["labels"]["topology.k8s.aws/zone-id"].startswith("euw1-az")
    assert len(instance_ids) == 1
    assert (code, stderr) == (0, "")
    assert time.monotonic() - began < 5
    assert process.has_logged("created nodeclaim")
    assert [line for line in process.lines if line["message"] == "reconciler error"] == []
    assert not process.has_logged("stopping in the middle of something; it is resumed at the next start")
    assert process.lines[-1]["message"] == "stopped"
    assert {"level", "time", "logger", "message"} <= process.lines[0].keys()


def test_sigterm_stops_the_process_while_ec2_launches(
    cluster: Cluster, moto: MotoAws, start: Callable[..., Running]
) -> None:
    prepare(cluster, moto)
    process = start(
        "--cluster-endpoint=https://demo.example.com",
        "--disable-dry-run",  # The dry run is a CreateFleet request, too.
        AWS_ENDPOINT_URL=moto.url,
        BATCH_IDLE_DURATION="200ms",
        **CREDENTIALS,
    )
    moto.middleware.latency["CreateFleet"] = 20.0
    # The server still responds to it during the next test: nothing must be launched there.
    moto.middleware.add_error(ScriptedError(operation="CreateFleet"))
    process.wait_until(lambda: moto.middleware.calls["CreateFleet"] > 0, "nothing was launched")

    began = time.monotonic()
    process.process.send_signal(signal.SIGTERM)
    code, stderr = process.end()

    moto.middleware.reset()
    assert (code, stderr) == (0, "")
    assert time.monotonic() - began < 5


def test_missing_kubeconfig_is_reported_with_all_locations(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    result = run("run", "--cluster-name", "demo")

    assert result.exit_code == 1
    assert "not in $KUBECONFIG" in result.stderr


def test_missing_region_or_credentials_are_reported_in_one_line(start: Callable[..., Running]) -> None:
    bare = {"AWS_EC2_METADATA_DISABLED": "true"}
    without_region = start(**bare)
    without_credentials = start(AWS_REGION=REGION, **bare)

    for process, message in ((without_region, "no AWS region"), (without_credentials, "credentials")):
        code, stderr = process.end()
        assert code == 1
        assert len(stderr.strip().splitlines()) == 1
        assert message in stderr


def run_with_server(url: str, tmp_path: Path) -> tuple[int, str, float]:
    """Run with a kubeconfig for this server; return exit code, stderr and seconds."""
    config = tmp_path / "config"
    config.write_text(yaml.safe_dump(encode_kubeconfig(url, "x", "")))
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


def test_unreachable_api_server_is_reported_within_seconds(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{closed.getsockname()[1]}"

    code, stderr, took = run_with_server(url, tmp_path)

    assert (code, len(stderr.splitlines())) == (1, 1)
    assert f"{url} does not respond" in stderr
    assert took < START_TIME


def test_silent_api_server_times_out_within_seconds(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"

        code, stderr, took = run_with_server(url, tmp_path)

    assert (code, len(stderr.splitlines())) == (1, 1)
    assert f"{url} gave no answer within 7s" in stderr
    assert took < 7 + START_TIME


def test_dovetail_does_not_start_beside_karpenter(cluster: Cluster, start: Callable[..., Running]) -> None:
    now = datetime.now(UTC)  # noqa: TID251
    spec = {"holderIdentity": "karpenter-1", "renewTime": f"{now:%Y-%m-%dT%H:%M:%S.%f}Z"}
    lease = {"metadata": {"name": "karpenter-leader-election"}, "spec": spec}
    cluster.run(lambda: cluster.api.create(LEASES, lease, "kube-system"))

    code, stderr = start(**CREDENTIALS).end()

    assert code == 1
    assert "Karpenter runs in this cluster (karpenter-1 holds the lease kube-system/" in stderr


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--batch-idle-duration=1 second", "is not a duration"),
        ("--batch-max-duration=0s", "is not a duration"),
        ("--cluster-endpoint=demo.example.com", "is not an absolute URL"),
        ("--cluster-ca-bundle=???", "is not base64"),
        ("--feature-gates=NodeRepair", "neither"),
        ("--preference-policy=Maybe", "'Respect', 'Ignore'"),
        ("--log-level=warn", "'debug', 'info', 'error'"),
        ("--reserved-enis=-1", "x>=0"),
    ],
)
def test_invalid_option_is_reported(option: str, message: str) -> None:
    result = run("run", "--cluster-name", "demo", option)

    assert result.exit_code == 1
    assert message in result.stderr
