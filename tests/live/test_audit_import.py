"""Audit logs of a real API server become traces, as far as their level says enough."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dovetail.cli.main import cli
from dovetail.trace.model import Delete, Event, Finish, Scale, Set, Tasks
from dovetail.trace.reader import Trace, load_trace
from tests.live.control_plane import ControlPlane

pytestmark = pytest.mark.live
LEVELS = {"whole": "RequestResponse", "bodies": "Request", "names": "Metadata"}
"""Namespace → level of its writes."""
POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "verbs": ["get", "list", "watch"]},
        *({"level": level, "namespaces": [namespace]} for namespace, level in LEVELS.items()),
        {"level": "None"},
    ],
}


@pytest.fixture(scope="module")
def audit_log(controlplane_binary_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a Deployment that is scaled twice and of a pod that ran, in each namespace."""
    plane = ControlPlane(controlplane_binary_path, tmp_path_factory.mktemp("audited"), audit_policy=POLICY)
    plane.start()
    try:
        for namespace in LEVELS:
            plane.kubectl("create", "namespace", namespace)
            plane.kubectl("create", "deployment", "web", "--image=web", "--replicas=2", "-n", namespace)
            plane.kubectl("scale", "deployment", "web", "--replicas=5", "-n", namespace)
            patch = json.dumps({"spec": {"replicas": 3}})
            plane.kubectl("patch", "deployment", "web", "-n", namespace, "-p", patch)
            plane.kubectl("run", "task", "--image=task", "-n", namespace)
            done = {
                "phase": "Succeeded",
                "containerStatuses": [
                    {
                        "name": "task",
                        "image": "task",
                        "imageID": "",
                        "ready": False,
                        "restartCount": 0,
                        "state": {
                            "terminated": {
                                "exitCode": 0,
                                "startedAt": "2026-03-02T08:00:00Z",
                                "finishedAt": "2026-03-02T08:01:30Z",
                            }
                        },
                    }
                ],
            }
            plane.kubectl(
                *("patch", "pod", "task", "-n", namespace, "--subresource=status", "--type=merge"),
                *("-p", json.dumps({"status": done})),
            )
            plane.kubectl("delete", "deployment", "web", "-n", namespace)
    finally:
        plane.stop()
    return plane.audit_log


def imported(*files: Path) -> tuple[Trace, str]:
    output = files[0].with_name("trace.zst")
    result = CliRunner().invoke(cli, ["trace", "import", "audit", *map(str, files), "-o", str(output)])
    assert result.exit_code == 0, result.output
    return load_trace(output), result.output


def of(trace: Trace, namespace: str, kind: type[Event]) -> list[Any]:
    return [
        event
        for event in trace.events
        if isinstance(event, kind)
        and namespace
        == (event.object["metadata"]["namespace"] if isinstance(event, Set) else event.namespace)
    ]


@pytest.mark.parametrize("namespace", ["whole", "bodies"])
def test_scale_and_run_times_are_in_logs_with_bodies(audit_log: Path, namespace: str) -> None:
    trace, _ = imported(audit_log)

    (created,) = of(trace, namespace, Set)
    assert (created.object["kind"], created.object["spec"]["replicas"]) == ("Deployment", 2)
    assert [event.replicas for event in of(trace, namespace, Scale)] == [5, 3]
    assert [event.name for event in of(trace, namespace, Delete)] == ["web"]
    tasks = [event for event in trace.events if isinstance(event, Tasks | Finish)]
    assert [event.seconds for event in tasks] == [90, 90]


def test_level_metadata_says_nothing_and_the_output_says_so(audit_log: Path) -> None:
    trace, output = imported(audit_log)

    assert of(trace, "names", Set) == []
    assert "level Metadata has no objects" in output


def test_an_export_of_cloudwatch_gives_the_same_events(audit_log: Path, tmp_path: Path) -> None:
    lines = audit_log.read_text().splitlines()
    plain, _ = imported(audit_log)
    events = [{"logStreamName": "kube-apiserver-audit-1", "timestamp": 1, "message": line} for line in lines]
    (tmp_path / "cli.json").write_text(json.dumps({"events": events}, indent=4))
    (tmp_path / "s3.log").write_text("".join(f"2026-03-02T08:00:00.000Z {line}\n" for line in lines))
    (tmp_path / "firehose.json").write_text(json.dumps({"messageType": "DATA_MESSAGE", "logEvents": events}))

    for name in ("cli.json", "s3.log", "firehose.json"):
        assert imported(tmp_path / name)[0].events == plain.events
