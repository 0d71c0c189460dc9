"""Capacity reservations and placement groups: resolves selector terms."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from dovetail.aws.errors import AwsError, ErrorKind
from dovetail.aws.filters import tag_filters
from dovetail.aws.session import AwsSession
from dovetail.model.karpenter.ec2nodeclass_launch import PlacementGroup, SelectorTerm
from dovetail.ports.event_loop import Clock
from dovetail.ports.telemetry import Log

_EXPIRING: Final = timedelta(minutes=40)
"""Before the end of a capacity block; no instance is launched into it any more."""
_MATCH_CRITERIA: Final = ("open", "targeted")
_TYPES: Final = ("default", "capacity-block")
_PAGE_SIZE: Final = 1000


class DescribedReservation(msgspec.Struct, frozen=True, kw_only=True):
    """A capacity reservation as EC2 describes it."""

    id: str
    instance_type: str
    zone: str
    owner: str = ""
    criteria: str = "open"
    type: str = "default"
    interruptible: bool = False
    available: int = 0
    end_time: datetime | None = None

    def has_ended(self, now: datetime) -> bool:
        """Return True if the reservation has ended."""
        return self.end_time is not None and self.end_time <= now

    def is_expiring(self, now: datetime) -> bool:
        """Return True if no instance should be launched into it any more."""
        if self.type != "capacity-block" or self.end_time is None:
            return False
        return now >= self.end_time - _EXPIRING

    def encode(self, now: datetime) -> dict[str, Any]:
        """Return the entry of ``status.capacityReservations``."""
        encoded: dict[str, Any] = {
            "availabilityZone": self.zone,
            "id": self.id,
            "instanceMatchCriteria": self.criteria,
            "instanceType": self.instance_type,
            "ownerID": self.owner,
            "reservationType": self.type,
            "interruptible": self.interruptible,
            "state": "expiring" if self.is_expiring(now) else "active",
        }
        if self.end_time is not None:
            encoded["endTime"] = self.end_time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return encoded


class ReservationCapacity:
    """Available instances per capacity reservation, less those of launches in flight.

    The node class status has no field for it. Each DescribeCapacityReservations
    replaces the count.
    """

    def __init__(self) -> None:
        self._available: dict[str, int] = {}

    def available(self, reservation: str) -> int:
        """Return the number of available instances; 0 if unknown."""
        return self._available.get(reservation, 0)

    def mark_launched(self, reservation: str) -> None:
        """Subtract an instance that was launched into a reservation."""
        self._available[reservation] = max(0, self.available(reservation) - 1)

    def mark_terminated(self, reservation: str) -> None:
        """Add an instance that has terminated."""
        if reservation in self._available:
            self._available[reservation] += 1

    def mark_exhausted(self, reservation: str) -> None:
        """Record that EC2 reports a reservation as full, or reclaims it."""
        self._available[reservation] = 0

    def update(self, counts: Mapping[str, int]) -> None:
        self._available.update(counts)


class CapacityReservationResolver:
    """Resolves capacity reservations and placement groups."""

    def __init__(self, aws: AwsSession, *, capacity: ReservationCapacity, clock: Clock, log: Log) -> None:
        self._aws = aws
        self._capacity = capacity
        self._clock = clock
        self._log = log

    async def resolve(self, terms: Sequence[SelectorTerm]) -> list[DescribedReservation]:
        """Return the active reservations that any term selects, sorted by id."""
        now = self._clock.now()
        by_id: dict[str, DescribedReservation] = {}
        for query in reservation_queries(terms):
            for described in await self._describe(query):
                reservation = self._decode(described)
                if reservation is not None and not reservation.has_ended(now):
                    by_id[reservation.id] = reservation
        self._capacity.update({key: reservation.available for key, reservation in by_id.items()})
        return [by_id[reservation_id] for reservation_id in sorted(by_id)]

    async def resolve_placement_group(self, term: SelectorTerm) -> PlacementGroup | None:
        """Return the placement group of a term; None if there is none."""
        ec2 = self._aws.ec2()
        query: dict[str, Any] = {"GroupIds": [term.id]} if term.id else {"GroupNames": [term.name]}
        query["Filters"] = [{"Name": "state", "Values": ["available"]}]
        try:
            response = await self._aws.call(
                "DescribePlacementGroups", lambda: ec2.describe_placement_groups(**query)
            )
        except AwsError as error:
            if error.kind is ErrorKind.NOT_FOUND or error.code.startswith("InvalidPlacementGroup"):
                return None
            raise
        for group in response["PlacementGroups"]:
            return PlacementGroup(
                id=group.get("GroupId", ""),
                strategy=group.get("Strategy", ""),
                partition_count=group.get("PartitionCount", 0),
            )
        return None

    async def _describe(self, query: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        ec2, operation = self._aws.ec2(), "DescribeCapacityReservations"
        # EC2 rejects page sizes together with ids.
        if "CapacityReservationIds" in query:
            response = await self._aws.call_or_none(
                operation, lambda: ec2.describe_capacity_reservations(**query)
            )
            return () if response is None else response["CapacityReservations"]
        return await self._aws.list_pages(
            operation, ec2, "CapacityReservations", page_size=_PAGE_SIZE, **query
        )

    def _decode(self, described: Mapping[str, Any]) -> DescribedReservation | None:
        """Decode a reservation; None, with a log line, if its type is unknown."""
        criteria = described.get("InstanceMatchCriteria", "open")
        reservation_type = described.get("ReservationType", "default")
        if criteria not in _MATCH_CRITERIA or reservation_type not in _TYPES:
            self._log.error(
                "ignoring capacity reservation of unknown type",
                reservation=described["CapacityReservationId"],
                criteria=criteria,
                kind=reservation_type,
            )
            return None
        return DescribedReservation(
            id=described["CapacityReservationId"],
            instance_type=described["InstanceType"],
            zone=described["AvailabilityZone"],
            owner=described.get("OwnerId", ""),
            criteria=criteria,
            type=reservation_type,
            interruptible=bool(described.get("Interruptible", False)),
            available=described.get("AvailableInstanceCount", 0),
            end_time=described.get("EndDate"),
        )


def reservation_queries(terms: Iterable[SelectorTerm]) -> list[dict[str, Any]]:
    """Return the parameters of one DescribeCapacityReservations per term.

    Each id has a query of its own: one unknown id fails the whole query.
    """
    active = {"Name": "state", "Values": ["active"]}
    queries: list[dict[str, Any]] = []
    for term in terms:
        filters = [active]
        if term.owner:
            filters.append({"Name": "owner-id", "Values": [term.owner]})
        if term.match_criteria:
            filters.append({"Name": "instance-match-criteria", "Values": [term.match_criteria]})
        filters += tag_filters(term.tags)
        ids = {"CapacityReservationIds": [term.id]} if term.id else {}
        queries.append({"Filters": filters, **ids})
    return queries
