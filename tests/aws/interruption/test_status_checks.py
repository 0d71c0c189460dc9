"""EC2 status checks and scheduled events."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dovetail.aws.errors import AwsError
from dovetail.aws.interruption.status_checks import Ec2StatusChecks, decode_unhealthy
from dovetail.ports.cloudprovider import InterruptionKind, UnhealthyInstance
from tests.support.aws.provider_process import AwsProcess
from tests.support.moto.middleware import ScriptedError
from tests.support.telemetry import RecordedLog

EARLY, LATE = datetime(2026, 1, 1, 9, tzinfo=UTC), datetime(2026, 1, 1, 10, tzinfo=UTC)
IMPAIRED = b"""<DescribeInstanceStatusResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
<instanceStatusSet><item><instanceId>i-1</instanceId>
<systemStatus><status>ok</status></systemStatus>
<instanceStatus><status>impaired</status><details><item>
<name>reachability</name><status>failed</status>
<impairedSince>2026-01-01T09:00:00.000Z</impairedSince>
</item></details></instanceStatus></item></instanceStatusSet>
</DescribeInstanceStatusResponse>"""


def check(status: str, *since: datetime) -> dict[str, Any]:
    details = [{"Name": "reachability", "Status": "failed", "ImpairedSince": entry} for entry in since]
    return {"Status": status, "Details": details}


def status(**more: Any) -> dict[str, Any]:
    return {"InstanceId": "i-1", **more}


@pytest.mark.parametrize(
    ("field", "kind"),
    [("InstanceStatus", InterruptionKind.INSTANCE_STATUS), ("SystemStatus", InterruptionKind.SYSTEM_STATUS)],
)
def test_a_failed_check_has_the_time_of_its_first_failure(field: str, kind: InterruptionKind) -> None:
    result = decode_unhealthy([status(**{field: check("impaired", LATE, EARLY)})])

    assert result == [UnhealthyInstance(instance_id="i-1", kind=kind, since=EARLY)]


@pytest.mark.parametrize("text", ["ok", "initializing", "insufficient-data", "not-applicable"])
def test_passed_checks_are_not_unhealthy(text: str) -> None:
    assert decode_unhealthy([status(InstanceStatus=check(text), SystemStatus=check(text))]) == []


def test_volume_checks_are_ignored() -> None:
    assert decode_unhealthy([status(AttachedEbsStatus=check("impaired", EARLY))]) == []


@pytest.mark.parametrize(
    ("code", "description", "is_one"),
    [
        ("instance-retirement", "scheduled for retirement", True),
        ("system-reboot", "", True),
        ("instance-stop", "[Completed] stopped", False),
        ("system-maintenance", "[Canceled] maintenance", False),
        ("something-else", "", False),
    ],
)
def test_scheduled_events_are_unhealthy(code: str, description: str, is_one: bool) -> None:
    result = decode_unhealthy([status(Events=[{"Code": code, "Description": description}])])

    assert [entry.kind for entry in result] == [InterruptionKind.EVENT_STATUS] * is_one


def test_all_failed_checks_of_an_instance_are_found(process: AwsProcess) -> None:
    proxy = process.account.moto.middleware
    proxy.responses["DescribeInstanceStatus"] = lambda _: ("text/xml", IMPAIRED)

    result = process.do(Ec2StatusChecks(aws=process.aws, ec2=process.ec2, log=RecordedLog()).list_unhealthy())

    del proxy.responses["DescribeInstanceStatus"]
    assert result == [
        UnhealthyInstance(instance_id="i-1", kind=InterruptionKind.INSTANCE_STATUS, since=EARLY)
    ]
    assert proxy.calls["DescribeInstanceStatus"] == 3


def test_a_denied_status_check_is_logged_once(process: AwsProcess) -> None:
    proxy, log = process.account.moto.middleware, RecordedLog()
    proxy.add_error(
        ScriptedError(operation="DescribeInstanceStatus", code="UnauthorizedOperation", status=403)
    )
    status_checks = Ec2StatusChecks(aws=process.aws, ec2=process.ec2, log=log)

    result = [process.do(status_checks.list_unhealthy()) for _ in range(2)]

    assert result == [(), ()]
    assert proxy.calls["DescribeInstanceStatus"] == 1
    (line,) = log.lines
    assert "UnauthorizedOperation" in line.fields["error"]


def test_other_errors_are_raised_for_a_retry(process: AwsProcess) -> None:
    proxy = process.account.moto.middleware
    proxy.add_error(ScriptedError(operation="DescribeInstanceStatus", code="Unheard", status=400))

    with pytest.raises(AwsError, match="Unheard"):
        process.do(Ec2StatusChecks(aws=process.aws, ec2=process.ec2, log=RecordedLog()).list_unhealthy())
