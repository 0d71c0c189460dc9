"""``dovetail migrate check`` as a user runs it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.host.clock import SystemClock
from dovetail.migration.facts import OLDER, WEBHOOKS
from tests.doctor.cluster import Cluster
from tests.doctor.server import serve_in_thread
from tests.support.karpenter import objects as karpenter


def check(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["migrate", "check", *arguments])


def a_dump(folder: Path, objects: list[dict[str, Any]] | None = None) -> str:
    items = objects if objects is not None else karpenter.a_cluster(now=SystemClock().now())
    path = folder / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def test_a_ready_cluster_exits_with_0_and_prints_the_commands(tmp_path: Path) -> None:
    result = check("--cluster", a_dump(tmp_path))

    assert result.exit_code == 0, result.output
    assert "Ready. 0 blockers, 0 warnings, 3 not checked." in result.stdout
    assert "kubectl -n kube-system scale --replicas 0 deployment karpenter" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_warnings_exit_with_2_and_blockers_with_1(tmp_path: Path) -> None:
    objects = karpenter.a_cluster(now=SystemClock().now())
    objects[0] = karpenter.deployment(AMI_REFRESH_INTERVAL="5m")
    warned = check("--cluster", a_dump(tmp_path, objects))
    objects[0] = karpenter.deployment(BATCH_MAX_DURATION="soon")
    blocked = check("--cluster", a_dump(tmp_path, objects))

    assert warned.exit_code == 2
    assert "Ready, with warnings" in warned.stdout
    assert blocked.exit_code == 1
    assert "'soon' is not a duration" in blocked.stdout
    assert "Not ready" in blocked.stdout


def test_json_has_items_unknown_facts_and_commands(tmp_path: Path) -> None:
    result = check("--cluster", a_dump(tmp_path), "-o", "json")

    report = json.loads(result.stdout)
    assert report["level"] == "note"
    assert report["karpenter"] == "1.14.1"
    assert {"area", "level", "about", "text", "fix"} == set(report["items"][0])
    assert report["take_over"][0]["commands"]
    assert {"what", "why"} == set(report["unknown"][0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "make a dump with: kubectl get"),
        ('{"kind": "List", "apiVersion": "v1", "items": []}', "make a dump with: kubectl get"),
        ("[1, ", "cluster.json"),
    ],
)
def test_a_file_that_is_no_dump_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "cluster.json").write_text(text)

    result = check("--cluster", str(tmp_path / "cluster.json"))

    assert result.exit_code == 1
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_a_missing_file_and_contradicting_options_are_errors(tmp_path: Path) -> None:
    missing = check("--cluster", str(tmp_path / "nothing.json"))
    both = check("--cluster", a_dump(tmp_path), "--context", "demo")

    assert (missing.exit_code, both.exit_code) == (1, 1)
    assert "does not exist" in missing.stderr
    assert "not both" in both.stderr


def test_a_live_cluster_is_read_by_its_kubeconfig(tmp_path: Path) -> None:
    served = Cluster("i-0123456789abcdef0")
    served.extra_objects |= {kind: [] for kind in (*WEBHOOKS, *OLDER)}
    with serve_in_thread(served) as config:
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        result = check("--kubeconfig", str(path), "-o", "json")

    report = json.loads(result.stdout)
    assert report["karpenter"] == "1.12.0"
    assert not report["unknown"]


def test_a_server_that_does_not_respond_is_an_error(tmp_path: Path) -> None:
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [cluster],
        "contexts": [context],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))

    result = check("--kubeconfig", str(path))

    assert result.exit_code == 1
    assert "127.0.0.1:9" in result.stderr
