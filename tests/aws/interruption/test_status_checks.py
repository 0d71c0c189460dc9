"""What EC2 says of the health of instances, read."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dovetail.aws.errors import AwsError
from dovetail.aws.interruption.status_checks import Ec2Checkups, ailments
from dovetail.ports.cloudprovider import Ailment, Interruption
from tests.support.moto.door import Fault
from tests.support.moto.process import AwsProcess
from tests.support.telling import KeptLog

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
    details = [{"Name": "reachability", "Status": "failed", "ImpairedSince": one} for one in since]
    return {"Status": status, "Details": details}


def status(**more: Any) -> dict[str, Any]:
    return {"InstanceId": "i-1", **more}


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        ("InstanceStatus", Interruption.INSTANCE_STATUS),
        ("SystemStatus", Interruption.SYSTEM_STATUS),
    ],
)
def test_a_failed_check_counts_from_its_first_failure(field: str, kind: Interruption) -> None:
    found = ailments([status(**{field: check("impaired", LATE, EARLY)})])

    assert found == [Ailment(instance_id="i-1", kind=kind, since=EARLY)]


@pytest.mark.parametrize("told", ["ok", "initializing", "insufficient-data", "not-applicable"])
def test_checks_that_have_not_failed_are_no_ailment(told: str) -> None:
    assert ailments([status(InstanceStatus=check(told), SystemStatus=check(told))]) == []


def test_volumes_are_no_ailment_of_the_machine() -> None:
    assert ailments([status(AttachedEbsStatus=check("impaired", EARLY))]) == []


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
def test_events_that_are_ahead_are_ailments(code: str, description: str, is_one: bool) -> None:
    found = ailments([status(Events=[{"Code": code, "Description": description}])])

    assert [one.kind for one in found] == [Interruption.EVENT_STATUS] * is_one


def test_all_that_is_wrong_with_a_machine_is_found(process: AwsProcess) -> None:
    door = process.site.moto.door
    door.answering["DescribeInstanceStatus"] = lambda _: ("text/xml", IMPAIRED)

    found = process.do(Ec2Checkups(aws=process.aws, ec2=process.ec2, log=KeptLog()).ailing())

    del door.answering["DescribeInstanceStatus"]
    assert found == [
        Ailment(instance_id="i-1", kind=Interruption.INSTANCE_STATUS, since=EARLY),
    ]
    assert door.calls["DescribeInstanceStatus"] == 3


def test_who_may_not_ask_is_told_once_and_asks_no_more(process: AwsProcess) -> None:
    door, log = process.site.moto.door, KeptLog()
    door.script(Fault(operation="DescribeInstanceStatus", code="UnauthorizedOperation", status=403))
    checkups = Ec2Checkups(aws=process.aws, ec2=process.ec2, log=log)

    found = [process.do(checkups.ailing()) for _ in range(2)]

    assert found == [(), ()]
    assert door.calls["DescribeInstanceStatus"] == 1
    (line,) = log.lines
    assert "UnauthorizedOperation" in line.fields["error"]


def test_other_errors_are_for_whoever_tries_again(process: AwsProcess) -> None:
    door = process.site.moto.door
    door.script(Fault(operation="DescribeInstanceStatus", code="Unheard", status=400))

    with pytest.raises(AwsError, match="Unheard"):
        process.do(Ec2Checkups(aws=process.aws, ec2=process.ec2, log=KeptLog()).ailing())
