"""Capacity reservations and placement groups: 46 and 48 of the AWS checklist."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dovetail.aws.nodeclass.capacity_reservations import DescribedReservation, reservation_queries
from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.nodeclasses import decode_nodeclass
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass_launch import SelectorTerm
from tests.aws.nodeclass.classes import a_class, reasons
from tests.support.aws.nodeclass_account import Account, NodeClassProcess

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
ANY = [{"tags": {"team": "*"}}]


def held(process: NodeClassProcess, *terms: dict[str, Any]) -> list[dict[str, Any]]:
    result = process.resolve(a_class(capacityReservationSelectorTerms=list(terms) or ANY))
    return list(result.status.get("capacityReservations", []))


def test_reservations_are_sorted_by_id_with_all_fields(account: Account, process: NodeClassProcess) -> None:
    account.reservation("cr-2", instanceMatchCriteria="open")
    account.reservation("cr-1", instanceType="p5.48xlarge")

    result = held(process)

    assert result == [
        {
            "availabilityZone": "eu-west-1a",
            "id": "cr-1",
            "instanceMatchCriteria": "targeted",
            "instanceType": "p5.48xlarge",
            "ownerID": "123456789012",
            "reservationType": "default",
            "interruptible": False,
            "state": "active",
        },
        {**result[1], "id": "cr-2", "instanceMatchCriteria": "open"},
    ]


def test_ended_and_unknown_reservations_are_ignored(account: Account, process: NodeClassProcess) -> None:
    account.reservation("cr-1", endDate=datetime(2020, 1, 1, tzinfo=UTC))
    account.reservation("cr-2", instanceMatchCriteria="of-tomorrow")
    account.reservation("cr-3", endDate=datetime(2040, 1, 1, tzinfo=UTC))

    result = held(process)

    assert [(entry["id"], entry["endTime"]) for entry in result] == [("cr-3", "2040-01-01T00:00:00Z")]
    [line] = process.log.entries("ignoring capacity reservation of unknown type")
    assert line["reservation"] == "cr-2"


def test_a_missing_reservation_id_is_not_an_error(account: Account, process: NodeClassProcess) -> None:
    account.reservation("cr-1")
    account.fail("DescribeCapacityReservations", "InvalidCapacityReservationId.NotFound", times=1, status=400)

    result = process.resolve(a_class(capacityReservationSelectorTerms=[{"id": "cr-9"}, {"id": "cr-1"}]))

    assert [entry["id"] for entry in result.status["capacityReservations"]] == ["cr-1"]
    assert not result.false_conditions


@pytest.mark.parametrize(
    ("kind", "left", "expiring"),
    [("capacity-block", 41, False), ("capacity-block", 40, True), ("default", 1, False)],
)
def test_a_capacity_block_expires_forty_minutes_before_its_end(kind: str, left: int, expiring: bool) -> None:
    entry = DescribedReservation(
        id="cr-1", instance_type="p5.48xlarge", zone="a", type=kind, end_time=NOW + timedelta(minutes=left)
    )

    assert entry.is_expiring(NOW) is expiring


def test_terms_become_queries() -> None:
    term = SelectorTerm(tags=FrozenDict({"team": "a"}), owner="123456789012", match_criteria="open")

    [request, named] = reservation_queries([term, SelectorTerm(id="cr-1")])

    assert request == {
        "Filters": [
            {"Name": "state", "Values": ["active"]},
            {"Name": "owner-id", "Values": ["123456789012"]},
            {"Name": "instance-match-criteria", "Values": ["open"]},
            {"Name": "tag:team", "Values": ["a"]},
        ]
    }
    assert named["CapacityReservationIds"] == ["cr-1"]


def test_a_node_class_has_the_available_count_of_its_reservations(
    account: Account, process: NodeClassProcess
) -> None:
    account.reservation("cr-1", availableInstanceCount=3)
    raw = a_class(capacityReservationSelectorTerms=ANY)
    raw["status"] = process.resolve(raw).status
    node_class = decode_nodeclass(Field(raw, DecodeContext(strict=False)))

    def room() -> int:
        return process.resolver.with_cached_status(node_class).capacity_reservations[0].available_count

    assert room() == 3
    process.reservation_capacity.mark_launched("cr-1")
    assert room() == 2
    process.reservation_capacity.mark_exhausted("cr-1")
    assert room() == 0
    process.reservation_capacity.mark_terminated("cr-1")
    assert room() == 1
    assert process.resolver.with_cached_status(node_class) is process.resolver.with_cached_status(node_class)


@pytest.mark.parametrize("selector", [{"name": "close"}, {"id": "pg-1"}])
def test_a_placement_group_is_resolved_by_name_or_id(
    account: Account, process: NodeClassProcess, selector: dict[str, str]
) -> None:
    account.placement_group("close", "pg-1")
    raw = a_class(placementGroupSelector=selector)

    raw["status"] = process.resolve(raw).status

    node_class = decode_nodeclass(Field(raw, DecodeContext(strict=False)))
    assert process.resolver.with_cached_status(node_class).resolved.placement_group.id == "pg-1"


def test_a_missing_placement_group_is_named(process: NodeClassProcess) -> None:
    result = process.resolve(a_class(placementGroupSelector={"name": "close"}))

    assert reasons(result) == {"PlacementGroupReady": "PlacementGroupNotFound"}
