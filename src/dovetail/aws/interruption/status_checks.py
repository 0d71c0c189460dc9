"""EC2's own checks of instances, and what it has planned for them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dovetail.aws.errors import AwsError, Kind
from dovetail.aws.session import Aws
from dovetail.ports.cloudprovider import Ailment, Interruption
from dovetail.ports.telemetry import Log

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client
    from types_boto3_ec2.type_defs import FilterTypeDef, InstanceStatusTypeDef

_PLANNED: Final = (
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
)
_DONE: Final = ("[Completed]", "[Canceled]")
"""How the description of an event begins that is over; EC2 shows it for a week more."""
_QUERIES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("instance-status.status", ("impaired",)),
    ("system-status.status", ("impaired",)),
    ("event.code", _PLANNED),
)


class Ec2Checkups:
    """``ports.cloudprovider.Checkups`` by DescribeInstanceStatus.

    Who is not allowed to ask is told so once, and not asked for again: everything
    else works without it.
    """

    def __init__(self, *, aws: Aws, ec2: "EC2Client", log: Log) -> None:
        self._aws = aws
        self._ec2 = ec2
        self._log = log
        self._is_refused = False

    async def ailing(self) -> Sequence[Ailment]:
        if self._is_refused:
            return ()
        found: dict[str, InstanceStatusTypeDef] = {}
        try:
            for name, values in _QUERIES:
                for one in await self._described({"Name": name, "Values": list(values)}):
                    found[one["InstanceId"]] = one
        except AwsError as error:
            if error.kind is not Kind.REFUSED:
                raise
            self._is_refused = True
            self._log.error("instances' status checks are not looked at", error=str(error))
            return ()
        return ailments(found.values())

    async def _described(self, which: "FilterTypeDef") -> list["InstanceStatusTypeDef"]:
        pages = self._ec2.get_paginator("describe_instance_status")
        return await self._aws.call(
            "DescribeInstanceStatus",
            lambda: [
                one
                for page in pages.paginate(Filters=[which], PaginationConfig={"PageSize": 1000})
                for one in page["InstanceStatuses"]
            ],
        )


def ailments(statuses: Iterable[Mapping[str, Any]]) -> list[Ailment]:
    """Return all that is wrong, or planned, from what EC2 says of instances.

    Checks of attached volumes are left out: a pod may do without its volume.
    """
    found: list[Ailment] = []
    for one in statuses:
        name = one["InstanceId"]
        for field, kind in (
            ("InstanceStatus", Interruption.INSTANCE_STATUS),
            ("SystemStatus", Interruption.SYSTEM_STATUS),
        ):
            if (one.get(field) or {}).get("Status") == "impaired":
                found.append(Ailment(instance_id=name, kind=kind, since=_since(one[field])))
        if any(_is_ahead(event) for event in one.get("Events") or ()):
            found.append(Ailment(instance_id=name, kind=Interruption.EVENT_STATUS))
    return found


def _since(check: Mapping[str, Any]) -> Any:
    """Return since when a check has failed: the first of its parts that did."""
    moments = [
        part["ImpairedSince"]
        for part in check.get("Details") or ()
        if part.get("Status") == "failed" and "ImpairedSince" in part
    ]
    return min(moments, default=None)


def _is_ahead(event: Mapping[str, Any]) -> bool:
    return event.get("Code") in _PLANNED and not event.get("Description", "").startswith(_DONE)
