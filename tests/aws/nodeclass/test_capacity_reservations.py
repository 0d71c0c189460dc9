"""Capacity reservations and placement groups: 46 and 48 of the AWS checklist."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dovetail.aws.nodeclass.capacity_reservations import Reservation, _questions
from dovetail.codec.fields import Field, Findings
from dovetail.codec.karpenter.nodeclasses import decode_node_class
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass_launch import SelectorTerm
from tests.aws.nodeclass.classes import a_class, reasons
from tests.support.moto_nodeclass import Account, ClassProcess

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
ANY = [{"tags": {"team": "*"}}]


def held(process: ClassProcess, *terms: dict[str, Any]) -> list[dict[str, Any]]:
    found = process.resolve(a_class(capacityReservationSelectorTerms=list(terms) or ANY))
    return list(found.status.get("capacityReservations", []))


def test_reservations_are_listed_by_id_with_what_they_hold(
    account: Account, process: ClassProcess
) -> None:
    account.reservation("cr-2", instanceMatchCriteria="open")
    account.reservation("cr-1", instanceType="p5.48xlarge")

    found = held(process)

    assert found == [
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
        {**found[1], "id": "cr-2", "instanceMatchCriteria": "open"},
    ]


def test_reservations_that_are_over_or_unknown_are_left_out(
    account: Account, process: ClassProcess
) -> None:
    account.reservation("cr-1", endDate=datetime(2020, 1, 1, tzinfo=UTC))
    account.reservation("cr-2", instanceMatchCriteria="of-tomorrow")
    account.reservation("cr-3", endDate=datetime(2040, 1, 1, tzinfo=UTC))

    found = held(process)

    assert [(one["id"], one["endTime"]) for one in found] == [("cr-3", "2040-01-01T00:00:00Z")]
    [line] = process.log.said("capacity reservation of an unknown kind is left out")
    assert line["reservation"] == "cr-2"


def test_an_id_that_is_gone_is_no_problem(account: Account, process: ClassProcess) -> None:
    account.reservation("cr-1")
    account.refuse(
        "DescribeCapacityReservations", "InvalidCapacityReservationId.NotFound", times=1, status=400
    )

    found = process.resolve(
        a_class(capacityReservationSelectorTerms=[{"id": "cr-9"}, {"id": "cr-1"}])
    )

    assert [one["id"] for one in found.status["capacityReservations"]] == ["cr-1"]
    assert not found.problems


@pytest.mark.parametrize(
    ("kind", "left", "expiring"),
    [
        ("capacity-block", 41, False),
        ("capacity-block", 40, True),
        ("default", 1, False),
    ],
)
def test_a_capacity_block_expires_forty_minutes_before_its_end(
    kind: str, left: int, expiring: bool
) -> None:
    one = Reservation(
        id="cr-1",
        instance_type="p5.48xlarge",
        zone="a",
        kind=kind,
        ends=NOW + timedelta(minutes=left),
    )

    assert one.is_expiring(NOW) is expiring


def test_terms_are_asked_as_they_are_written() -> None:
    term = SelectorTerm(tags=FrozenDict({"team": "a"}), owner="123456789012", match_criteria="open")

    [asked, named] = _questions([term, SelectorTerm(id="cr-1")])

    assert asked == {
        "Filters": [
            {"Name": "state", "Values": ["active"]},
            {"Name": "owner-id", "Values": ["123456789012"]},
            {"Name": "instance-match-criteria", "Values": ["open"]},
            {"Name": "tag:team", "Values": ["a"]},
        ]
    }
    assert named["CapacityReservationIds"] == ["cr-1"]


def test_a_class_knows_how_much_room_is_left_in_its_reservations(
    account: Account, process: ClassProcess
) -> None:
    account.reservation("cr-1", availableInstanceCount=3)
    raw = a_class(capacityReservationSelectorTerms=ANY)
    raw["status"] = process.resolve(raw).status
    node_class = decode_node_class(Field(raw, Findings(written_by_hand=False)))

    def room() -> int:
        return process.resolver.completed(node_class).reservations[0].available

    assert room() == 3
    process.room.take("cr-1")
    assert room() == 2
    process.room.exhaust("cr-1")
    assert room() == 0
    process.room.give_back("cr-1")
    assert room() == 1
    assert process.resolver.completed(node_class) is process.resolver.completed(node_class)


@pytest.mark.parametrize("selector", [{"name": "close"}, {"id": "pg-1"}])
def test_a_placement_group_is_found_by_name_or_id(
    account: Account, process: ClassProcess, selector: dict[str, str]
) -> None:
    account.placement_group("close", "pg-1")
    raw = a_class(placementGroupSelector=selector)

    raw["status"] = process.resolve(raw).status

    node_class = decode_node_class(Field(raw, Findings(written_by_hand=False)))
    assert process.resolver.completed(node_class).found.placement_group.id == "pg-1"


def test_a_placement_group_that_is_not_there_is_named(process: ClassProcess) -> None:
    found = process.resolve(a_class(placementGroupSelector={"name": "close"}))

    assert reasons(found) == {"PlacementGroupReady": "PlacementGroupNotFound"}
