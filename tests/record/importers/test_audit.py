"""Audit logs that are wrong or have nothing; real ones are in tests/live/test_audit_import.py."""

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.trace.model import Tasks
from dovetail.trace.reader import load_trace
from tests.record.objects import deployment, pod


def line(
    verb: str, obj: dict[str, object], *, plural: str = "deployments", second: int = 0, **more: object
) -> str:
    """Return a write of level RequestResponse."""
    meta = obj["metadata"]
    assert isinstance(meta, dict)
    group = "apps" if plural == "deployments" else ""
    reference = {"resource": plural, "apiGroup": group, "namespace": meta["namespace"], "name": meta["name"]}
    event = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "auditID": f"id-{verb}-{second}",
        "level": "RequestResponse",
        "stage": "ResponseComplete",
        "verb": verb,
        "objectRef": {**reference, **more},
        "responseStatus": {"code": 200},
        "responseObject": obj,
        "stageTimestamp": f"2026-03-02T08:00:{second:02}.000000Z",
    }
    return json.dumps(event) + "\n"


def run(folder: Path, text: str) -> Result:
    (folder / "audit.log").write_text(text)
    arguments = ["trace", "import", "audit", str(folder / "audit.log"), "-o", str(folder / "t.zst")]
    return CliRunner().invoke(cli, arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "audit.log is empty"),
        ("hello\n", "audit.log:1 this is not an audit event: JSON is malformed"),
        ('[{"@message": "{"}, {"@mess\n', "audit.log this is not JSON"),
        ('{"logEvents": []}{"logEv\n', "audit.log:1 this is not JSON"),
        (line("update", deployment()) + '{"level": "Request"}\n', "audit.log:2 this is not an audit event"),
        (line("get", deployment()), "the audit log has no successful write of a workload, pod or NodePool"),
    ],
)
def test_a_log_without_demand_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    result = run(tmp_path, text)

    assert result.exit_code == 1
    assert message in result.output
    assert not (tmp_path / "t.zst").exists()


def insights_row(event: str) -> dict[str, object]:
    return {"@timestamp": "2026-03-02 08:00:00.000", "@message": event}


CREATE, SCALE = line("create", deployment(replicas=2)), line("update", deployment(replicas=9), second=40)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([insights_row(CREATE), insights_row(SCALE)]),
        json.dumps([{"@message": json.loads(CREATE)}, {"@message": json.loads(SCALE)}], indent=2),
        "".join(json.dumps(insights_row(event)) + "\n" for event in (CREATE, SCALE)),
        json.dumps(
            {"results": [[{"field": "@message", "value": event}] for event in (CREATE, SCALE)]}, indent=4
        ),
        "".join(json.dumps({"logEvents": [{"message": event}]}) for event in (CREATE, SCALE)),
    ],
    ids=["insights export", "with objects", "insights lines", "get-query-results", "firehose"],
)
def test_exports_of_cloudwatch_are_read(tmp_path: Path, text: str) -> None:
    result = run(tmp_path, text)

    assert result.exit_code == 0, result.output
    trace = load_trace(tmp_path / "t.zst")
    assert [(type(event).__name__, event.t) for event in trace.events] == [("Set", 0), ("Scale", 40)]


def record(*messages: str, type: str = "DATA_MESSAGE") -> str:
    """Return a record as CloudWatch sends it to a subscription."""
    events = [{"id": str(number), "message": message} for number, message in enumerate(messages)]
    return json.dumps({"messageType": type, "logEvents": events})


def test_control_messages_and_lines_of_other_logs_in_a_subscription_are_left_out(tmp_path: Path) -> None:
    control = record("CWL CONTROL MESSAGE: Checking health of destination.", type="CONTROL_MESSAGE")
    klog = record("I0302 08:00:00.000000 10 controller.go:132] item", '{"level":"info"}', CREATE[:200])

    result = run(tmp_path, control + klog + record(CREATE, SCALE))

    assert result.exit_code == 0, result.output
    assert "audit.log left out 3 messages of other logs" in result.output
    trace = load_trace(tmp_path / "t.zst")
    assert [(type(event).__name__, event.t) for event in trace.events] == [("Set", 0), ("Scale", 40)]


def test_a_log_of_other_messages_only_is_an_error(tmp_path: Path) -> None:
    result = run(tmp_path, record("I0302 08:00:00.000000 10 controller.go:132] item"))

    assert result.exit_code == 1
    assert "audit.log has no audit events, but 1 message of other logs" in result.output


def test_a_message_that_is_a_wrong_audit_event_is_an_error(tmp_path: Path) -> None:
    result = run(tmp_path, record(CREATE.replace("2026-03-02T", "yesterday "), SCALE))

    assert result.exit_code == 1
    assert "a message is not an audit event: Invalid RFC3339 encoded datetime" in result.output


def test_records_that_firehose_compressed_again_are_read(tmp_path: Path) -> None:
    records = b"".join(gzip.compress(record(event).encode()) for event in (CREATE, SCALE))
    (tmp_path / "audit.gz").write_bytes(gzip.compress(records))

    result = CliRunner().invoke(
        cli, ["trace", "import", "audit", str(tmp_path / "audit.gz"), "-o", str(tmp_path / "t.zst")]
    )

    assert result.exit_code == 0, result.output
    assert len(load_trace(tmp_path / "t.zst").events) == 2


def test_a_log_of_names_only_is_an_error_that_names_the_levels(tmp_path: Path) -> None:
    event = {**json.loads(CREATE), "level": "Metadata"}
    del event["responseObject"]

    result = run(tmp_path, json.dumps(event) + "\n")

    assert result.exit_code == 1
    assert "no object that can be imported (used: 1 write, 1 of level Metadata; left out: 1" in result.output
    assert "its policy needs level RequestResponse, or at least Request" in result.output
    assert not (tmp_path / "t.zst").exists()


@pytest.mark.parametrize(("level", "changes"), [("RequestResponse", ["Set", "Set"]), ("Request", ["Set"])])
def test_roll_outs_are_read_from_whole_objects_and_not_from_requests(
    tmp_path: Path, level: str, changes: list[str]
) -> None:
    # What a controller writes later has the defaults of the API server, which are no roll-out.
    defaulted = deployment()
    defaulted["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Always"
    writes = [json.loads(line("create", deployment())), json.loads(line("update", defaulted, second=1))]
    if level == "Request":
        writes = [{**write, "level": level, "requestObject": write.pop("responseObject")} for write in writes]

    result = run(tmp_path, "".join(json.dumps(write) + "\n" for write in writes))

    assert result.exit_code == 0, result.output
    assert [type(event).__name__ for event in load_trace(tmp_path / "t.zst").events] == changes
    assert ("roll-outs are seen only if" in result.output) == (level == "Request")


def test_a_patch_of_one_container_keeps_its_requests_and_the_other_containers(tmp_path: Path) -> None:
    web = deployment()
    containers = web["spec"]["template"]["spec"]["containers"]
    containers.append({"name": "proxy", "resources": {"requests": {"cpu": "1"}}})
    names = [{"name": each["name"]} for each in containers]
    changed = {"$setElementOrder/containers": names, "containers": [{**names[0], "image": "shop:2"}]}
    patch = {"spec": {"replicas": 9, "template": {"spec": changed}}}
    writes = [json.loads(line("create", web)), json.loads(line("patch", web, second=1))]
    bodies = [web, patch]
    writes = [
        {**write, "level": "Request", "requestObject": body, "responseObject": None}
        for write, body in zip(writes, bodies, strict=True)
    ]

    result = run(tmp_path, "".join(json.dumps(write) + "\n" for write in writes))

    assert result.exit_code == 0, result.output
    events = load_trace(tmp_path / "t.zst").events
    assert [type(event).__name__ for event in events] == ["Set", "Scale"]


def test_a_half_written_last_line_is_left_out_and_named(tmp_path: Path) -> None:
    result = run(tmp_path, line("create", deployment()) + line("update", deployment(), second=1)[:90])

    assert result.exit_code == 0, result.output
    assert "audit.log:2 the last line is incomplete and was left out" in result.output


def test_lines_of_several_api_servers_are_sorted_by_time(tmp_path: Path) -> None:
    later = line("update", deployment(replicas=9), second=40)

    run(tmp_path, later + line("create", deployment(replicas=2), second=3))

    trace = load_trace(tmp_path / "t.zst")
    assert [(type(event).__name__, event.t) for event in trace.events] == [("Set", 0), ("Scale", 37)]


def test_the_pod_after_an_eviction_is_no_new_task(tmp_path: Path) -> None:
    first, second = pod("etl-a", owner="etl"), pod("etl-b", owner="etl")

    result = run(
        tmp_path,
        line("create", first, plural="pods")
        + line("create", first, plural="pods", second=5, subresource="eviction")
        + line("delete", first, plural="pods", second=6)
        + line("create", second, plural="pods", second=7),
    )

    assert result.exit_code == 0, result.output
    assert len([event for event in load_trace(tmp_path / "t.zst").events if isinstance(event, Tasks)]) == 1
