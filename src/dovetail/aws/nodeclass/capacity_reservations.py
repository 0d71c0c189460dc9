"""Capacity reservations and placement groups: those that terms select."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from dovetail.aws.errors import AwsError, Kind
from dovetail.aws.filters import tag_filters
from dovetail.aws.session import Aws
from dovetail.model.karpenter.ec2nodeclass_launch import PlacementGroup, SelectorTerm
from dovetail.ports.event_loop import Clock
from dovetail.ports.telemetry import Log

_EXPIRING: Final = timedelta(minutes=40)
"""So long before its end a capacity block is no longer bought into."""
_CRITERIA: Final = ("open", "targeted")
_KINDS: Final = ("default", "capacity-block")
_PAGE: Final = 1000


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """A capacity reservation as EC2 describes it."""

    id: str
    instance_type: str
    zone: str
    owner: str = ""
    criteria: str = "open"
    kind: str = "default"
    interruptible: bool = False
    free: int = 0
    ends: datetime | None = None

    def is_expiring(self, now: datetime) -> bool:
        """Tell whether nothing should start in it any more."""
        if self.kind != "capacity-block" or self.ends is None:
            return False
        return now >= self.ends - _EXPIRING

    def wire(self, now: datetime) -> dict[str, Any]:
        """Write it as an entry of ``status.capacityReservations``."""
        shown: dict[str, Any] = {
            "availabilityZone": self.zone,
            "id": self.id,
            "instanceMatchCriteria": self.criteria,
            "instanceType": self.instance_type,
            "ownerID": self.owner,
            "reservationType": self.kind,
            "interruptible": self.interruptible,
            "state": "expiring" if self.is_expiring(now) else "active",
        }
        if self.ends is not None:
            shown["endTime"] = self.ends.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return shown


class RoomLeft:
    """How many machines still fit in each reservation, those on their way taken off.

    The status of a class has no place for it. EC2's own count replaces ours
    whenever it is asked for.
    """

    def __init__(self) -> None:
        self._left: dict[str, int] = {}

    def left(self, reservation: str) -> int:
        return self._left.get(reservation, 0)

    def take(self, reservation: str) -> None:
        """Count a machine that was launched into it."""
        self._left[reservation] = max(0, self.left(reservation) - 1)

    def give_back(self, reservation: str) -> None:
        """Count a machine in it that is gone."""
        if reservation in self._left:
            self._left[reservation] += 1

    def exhaust(self, reservation: str) -> None:
        """EC2 says that it is full, or takes it back."""
        self._left[reservation] = 0

    def counted(self, counts: Mapping[str, int]) -> None:
        self._left.update(counts)


class Reservations:
    """Finds what is reserved for us."""

    def __init__(self, aws: Aws, *, room: RoomLeft, clock: Clock, log: Log) -> None:
        self._aws = aws
        self._room = room
        self._clock = clock
        self._log = log

    async def find(self, terms: Sequence[SelectorTerm]) -> list[Reservation]:
        """Return the active reservations that any term finds, by id."""
        now = self._clock.now()
        found: dict[str, Reservation] = {}
        for asked in _questions(terms):
            for one in await self._describe(asked):
                read = self._read(one)
                if read is not None and (read.ends is None or read.ends > now):
                    found[read.id] = read
        self._room.counted({one.id: one.free for one in found.values()})
        return [found[one] for one in sorted(found)]

    async def placement_group(self, term: SelectorTerm) -> PlacementGroup | None:
        """Return the placement group that is meant; None when there is none."""
        ec2 = self._aws.ec2()
        asked: dict[str, Any] = {"GroupIds": [term.id]} if term.id else {"GroupNames": [term.name]}
        asked["Filters"] = [{"Name": "state", "Values": ["available"]}]
        try:
            answer = await self._aws.call(
                "DescribePlacementGroups", lambda: ec2.describe_placement_groups(**asked)
            )
        except AwsError as error:
            if error.kind is Kind.GONE or error.code.startswith("InvalidPlacementGroup"):
                return None
            raise
        for one in answer["PlacementGroups"]:
            return PlacementGroup(
                id=one.get("GroupId", ""),
                strategy=one.get("Strategy", ""),
                partitions=one.get("PartitionCount", 0),
            )
        return None

    async def _describe(self, asked: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        ec2 = self._aws.ec2()

        def pages() -> list[Mapping[str, Any]]:
            every: Any = ec2.get_paginator("describe_capacity_reservations")
            if "CapacityReservationIds" not in asked:
                return [
                    one
                    for page in every.paginate(**asked, PaginationConfig={"PageSize": _PAGE})
                    for one in page["CapacityReservations"]
                ]
            return list(ec2.describe_capacity_reservations(**asked)["CapacityReservations"])

        try:
            return await self._aws.call("DescribeCapacityReservations", pages)
        except AwsError as error:
            if error.kind is Kind.GONE:
                return []
            raise

    def _read(self, one: Mapping[str, Any]) -> Reservation | None:
        criteria = one.get("InstanceMatchCriteria", "open")
        kind = one.get("ReservationType", "default")
        if criteria not in _CRITERIA or kind not in _KINDS:
            self._log.error(
                "capacity reservation of an unknown kind is left out",
                reservation=one["CapacityReservationId"],
                criteria=criteria,
                kind=kind,
            )
            return None
        return Reservation(
            id=one["CapacityReservationId"],
            instance_type=one["InstanceType"],
            zone=one["AvailabilityZone"],
            owner=one.get("OwnerId", ""),
            criteria=criteria,
            kind=kind,
            interruptible=bool(one.get("Interruptible", False)),
            free=one.get("AvailableInstanceCount", 0),
            ends=one.get("EndDate"),
        )


def _questions(terms: Iterable[SelectorTerm]) -> list[dict[str, Any]]:
    """Return the parameters of one DescribeCapacityReservations for each term.

    Ids are asked for one by one: a single unknown id fails a whole question.
    """
    active = {"Name": "state", "Values": ["active"]}
    questions: list[dict[str, Any]] = []
    for term in terms:
        filters = [active]
        if term.owner:
            filters.append({"Name": "owner-id", "Values": [term.owner]})
        if term.match_criteria:
            filters.append({"Name": "instance-match-criteria", "Values": [term.match_criteria]})
        filters += tag_filters(term.tags)
        named = {"CapacityReservationIds": [term.id]} if term.id else {}
        questions.append({"Filters": filters, **named})
    return questions
