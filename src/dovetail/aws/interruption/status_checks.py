"""EC2 status checks and scheduled events of instances."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dovetail.aws.errors import AwsError, ErrorKind
from dovetail.aws.session import AwsSession
from dovetail.ports.cloudprovider import InterruptionKind, UnhealthyInstance
from dovetail.ports.telemetry import Log

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client

_SCHEDULED_EVENTS: Final = (
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
)
_PAST_EVENTS: Final = ("[Completed]", "[Canceled]")
"""Prefixes of the description of past events, which EC2 lists for another week."""
_QUERIES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("instance-status.status", ("impaired",)),
    ("system-status.status", ("impaired",)),
    ("event.code", _SCHEDULED_EVENTS),
)


class Ec2StatusChecks:
    """``ports.cloudprovider.InstanceStatusProvider`` with DescribeInstanceStatus.

    Without the permission it logs one error and returns nothing from then on:
    everything else works without it.
    """

    def __init__(self, *, aws: AwsSession, ec2: "EC2Client", log: Log) -> None:
        self._aws = aws
        self._ec2 = ec2
        self._log = log
        self._access_denied = False

    async def list_unhealthy(self) -> Sequence[UnhealthyInstance]:
        """Return instances with failed checks or scheduled events."""
        if self._access_denied:
            return ()
        by_id: dict[str, Mapping[str, Any]] = {}
        try:
            for name, values in _QUERIES:
                filters = [{"Name": name, "Values": list(values)}]
                for status in await self._aws.list_pages(
                    "DescribeInstanceStatus", self._ec2, "InstanceStatuses", page_size=1000, Filters=filters
                ):
                    by_id[status["InstanceId"]] = status
        except AwsError as error:
            if error.kind is not ErrorKind.ACCESS_DENIED:
                raise
            self._access_denied = True
            self._log.error("cannot read instance status checks", error=str(error))
            return ()
        return decode_unhealthy(by_id.values())


def decode_unhealthy(statuses: Iterable[Mapping[str, Any]]) -> list[UnhealthyInstance]:
    """Return failed status checks and scheduled events.

    Checks of attached EBS volumes are ignored: they do not affect every pod.
    """
    unhealthy: list[UnhealthyInstance] = []
    for status in statuses:
        name = status["InstanceId"]
        for field, kind in (
            ("InstanceStatus", InterruptionKind.INSTANCE_STATUS),
            ("SystemStatus", InterruptionKind.SYSTEM_STATUS),
        ):
            if (status.get(field) or {}).get("Status") == "impaired":
                unhealthy.append(UnhealthyInstance(instance_id=name, kind=kind, since=_since(status[field])))
        if any(
            event.get("Code") in _SCHEDULED_EVENTS
            and not event.get("Description", "").startswith(_PAST_EVENTS)
            for event in status.get("Events") or ()
        ):
            unhealthy.append(UnhealthyInstance(instance_id=name, kind=InterruptionKind.EVENT_STATUS))
    return unhealthy


def _since(check: Mapping[str, Any]) -> Any:
    """Return the time of the earliest failure in a status check."""
    moments = [
        part["ImpairedSince"]
        for part in check.get("Details") or ()
        if part.get("Status") == "failed" and "ImpairedSince" in part
    ]
    return min(moments, default=None)
