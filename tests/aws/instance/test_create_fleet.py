"""What CreateFleet is asked, and how its answer is read."""

from typing import Any

import msgspec
import pytest

from dovetail.aws.instance.create_fleet import (
    Config,
    Order,
    answer_of,
    is_priced_by_overlay,
    request_of,
    token_of,
    told_of,
)
from dovetail.core.instancetypes.build import instance_types
from dovetail.core.instancetypes.launch_choices import Choice, Refused, choices_for
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation, NodeClass
from tests.simulator.ec2.place import CATALOG, ON_DEMAND, PRICES, REGION, SPOT, A, B, a_claim

SUBNETS = {A: "subnet-a", B: "subnet-b"}
TYPES = instance_types(CATALOG.machines, region=REGION, node_class=NodeClass(), prices=PRICES)


def choices(kind: str) -> tuple[Choice, ...]:
    found = choices_for(a_claim(kinds=[kind]), TYPES)
    assert not isinstance(found, Refused)
    return found


def an_order(kind: str = SPOT, **more: Any) -> Order:
    return Order(
        **{
            "count": 2,
            "configs": (Config(template="lt", image="ami-1", choices=choices(kind)),),
            "subnets": SUBNETS,
            "capacity_type": kind,
            "tags": {"b": "2", "a": "1"},
            "lists": {"claims": "x"},
            **more,
        }
    )


def test_overrides_are_every_type_in_every_zone_with_subnet_image_and_price_as_priority() -> None:
    (config,) = request_of(an_order(ON_DEMAND))["LaunchTemplateConfigs"]

    assert config["LaunchTemplateSpecification"] == {
        "LaunchTemplateName": "lt",
        "Version": "$Latest",
    }
    assert config["Overrides"][0] == {
        "InstanceType": "m5.large",
        "SubnetId": "subnet-a",
        "AvailabilityZone": A,
        "ImageId": "ami-1",
        "Priority": 0.1,
    }
    places = [(one["InstanceType"], one["AvailabilityZone"]) for one in config["Overrides"]]
    assert places == [
        (name, zone) for name in ("m5.large", "c5.xlarge", "m5.xlarge") for zone in (A, B)
    ]


@pytest.mark.parametrize(
    ("kind", "overlay", "options", "strategy"),
    [
        (SPOT, False, "SpotOptions", "price-capacity-optimized"),
        (ON_DEMAND, False, "OnDemandOptions", "lowest-price"),
        (SPOT, True, "SpotOptions", "capacity-optimized-prioritized"),
        (ON_DEMAND, True, "OnDemandOptions", "prioritized"),
    ],
)
def test_the_strategy_follows_the_capacity_type_and_whose_prices_they_are(
    kind: str, overlay: bool, options: str, strategy: str
) -> None:
    request = request_of(an_order(kind, priced_by_overlay=overlay))

    assert request[options] == {"AllocationStrategy": strategy}
    assert request["TargetCapacitySpecification"] == {
        "TotalTargetCapacity": 2,
        "DefaultTargetCapacityType": kind,
    }
    assert request["Type"] == "instant"


@pytest.mark.parametrize(
    ("kind", "interruptible", "target"),
    [
        ("default", False, "on-demand"),
        ("capacity-block", False, "capacity-block"),
        ("default", True, "reserved-capacity"),
    ],
)
def test_reserved_capacity_is_asked_for_by_its_kind(
    kind: str, interruptible: bool, target: str
) -> None:
    held = CapacityReservation(
        id="cr-1",
        instance_type="m5.large",
        zone=A,
        available=1,
        kind=kind,
        interruptible=interruptible,
    )

    request = request_of(an_order(ON_DEMAND, capacity_type="reserved", reservation=held))

    assert request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == target
    assert ("OnDemandOptions" in request) == (target == "on-demand")
    assert ("ReservedCapacityOptions" in request) == (target == "reserved-capacity")


def test_instances_volumes_and_the_fleet_are_tagged_and_only_instances_list_the_claims() -> None:
    tags = {
        one["ResourceType"]: {tag["Key"] for tag in one["Tags"]}
        for one in request_of(an_order())["TagSpecifications"]
    }

    assert tags == {"instance": {"a", "b", "claims"}, "volume": {"a", "b"}, "fleet": {"a", "b"}}


def test_a_context_is_sent_only_where_there_is_one() -> None:
    assert "Context" not in request_of(an_order())
    assert request_of(an_order(context="ctx"))["Context"] == "ctx"


def test_a_price_overlay_is_known_by_its_annotation() -> None:
    overlaid = msgspec.structs.replace(
        a_claim(), annotations=FrozenDict({"karpenter.sh/price-overlay-applied": "mine"})
    )

    assert is_priced_by_overlay(overlaid)
    assert not is_priced_by_overlay(a_claim())


def test_a_token_is_the_same_for_the_same_request_and_attempt_only() -> None:
    request, other = request_of(an_order()), request_of(an_order(lists={"claims": "y"}))

    assert token_of(request, 0) == token_of(request_of(an_order()), 0)
    assert len({token_of(request, 0), token_of(request, 1), token_of(other, 0)}) == 3
    assert len(token_of(request, 0)) == 64


def test_an_answer_is_machines_by_id_and_failures_with_their_place() -> None:
    def place(name: str, subnet: str) -> dict[str, Any]:
        overrides = {"InstanceType": name, "SubnetId": subnet, "ImageId": "ami-1"}
        return {"LaunchTemplateAndOverrides": {"Overrides": overrides}}

    answer = answer_of(
        {
            "Instances": [
                {**place("m5.large", "s-b"), "InstanceType": "m5.large", "InstanceIds": ["i-3"]},
                {
                    **place("m5.large", "s-a"),
                    "InstanceType": "m5.large",
                    "InstanceIds": ["i-2", "i-1"],
                },
            ],
            "Errors": [
                {**place("c5.large", "s-a"), "ErrorCode": code, "ErrorMessage": "no"}
                for code in ("InsufficientInstanceCapacity", "Odd", "Odd")
            ],
        },
        {"s-a": A, "s-b": B},
    )

    assert [(one.id, one.zone) for one in answer.bought] == [("i-1", A), ("i-2", A), ("i-3", B)]
    assert [one.is_scarcity for one in answer.failures] == [True, False, False]
    assert (answer.failures[0].instance_type, answer.failures[0].zone) == ("c5.large", A)
    assert told_of(answer.failures) == "InsufficientInstanceCapacity: no; Odd: no"


def test_a_shortage_that_does_not_say_where_is_no_reason_to_set_everything_aside() -> None:
    (failure,) = answer_of({"Errors": [{"ErrorCode": "UnfulfillableCapacity"}]}, {}).failures

    assert not failure.is_scarcity
