"""CreateFleet: request and response."""

from typing import Any

import msgspec
import pytest

from dovetail.aws.instance.create_fleet import (
    FleetRequest,
    FleetTemplate,
    client_token,
    decode_fleet_response,
    encode_fleet_request,
    format_errors,
    has_price_overlay,
)
from dovetail.core.instancetypes.build import build_instance_types
from dovetail.core.instancetypes.launch_choices import LaunchChoice, NoLaunchChoices, find_launch_choices
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation, EC2NodeClass
from tests.simulator.ec2.harness import CATALOG, ON_DEMAND, PRICES, REGION, SPOT, A, B, a_claim

SUBNETS = {A: "subnet-a", B: "subnet-b"}
TYPES = build_instance_types(CATALOG.instance_types, region=REGION, node_class=EC2NodeClass(), prices=PRICES)


def choices(kind: str) -> tuple[LaunchChoice, ...]:
    result = find_launch_choices(a_claim(kinds=[kind]), TYPES)
    assert not isinstance(result, NoLaunchChoices)
    return result


def an_order(kind: str = SPOT, **more: Any) -> FleetRequest:
    return FleetRequest(
        **{
            "count": 2,
            "templates": (FleetTemplate(name="lt", ami_id="ami-1", choices=choices(kind)),),
            "subnets": SUBNETS,
            "capacity_type": kind,
            "tags": {"b": "2", "a": "1"},
            "claim_tags": {"claims": "x"},
            **more,
        }
    )


def test_overrides_are_every_type_in_every_zone_with_subnet_image_and_price_as_priority() -> None:
    (config,) = encode_fleet_request(an_order(ON_DEMAND))["LaunchTemplateConfigs"]

    assert config["LaunchTemplateSpecification"] == {"LaunchTemplateName": "lt", "Version": "$Latest"}
    assert config["Overrides"][0] == {
        "InstanceType": "m5.large",
        "SubnetId": "subnet-a",
        "AvailabilityZone": A,
        "ImageId": "ami-1",
        "Priority": 0.1,
    }
    places = [(entry["InstanceType"], entry["AvailabilityZone"]) for entry in config["Overrides"]]
    assert places == [(name, zone) for name in ("m5.large", "c5.xlarge", "m5.xlarge") for zone in (A, B)]


@pytest.mark.parametrize(
    ("kind", "overlay", "options", "strategy"),
    [
        (SPOT, False, "SpotOptions", "price-capacity-optimized"),
        (ON_DEMAND, False, "OnDemandOptions", "lowest-price"),
        (SPOT, True, "SpotOptions", "capacity-optimized-prioritized"),
        (ON_DEMAND, True, "OnDemandOptions", "prioritized"),
    ],
)
def test_the_allocation_strategy_follows_capacity_type_and_price_source(
    kind: str, overlay: bool, options: str, strategy: str
) -> None:
    request = encode_fleet_request(an_order(kind, prioritized=overlay))

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
def test_the_target_capacity_type_follows_the_reservation_type(
    kind: str, interruptible: bool, target: str
) -> None:
    held = CapacityReservation(
        id="cr-1",
        instance_type="m5.large",
        zone=A,
        available_count=1,
        reservation_type=kind,
        interruptible=interruptible,
    )

    request = encode_fleet_request(an_order(ON_DEMAND, capacity_type="reserved", reservation=held))

    assert request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == target
    assert ("OnDemandOptions" in request) == (target == "on-demand")
    assert ("ReservedCapacityOptions" in request) == (target == "reserved-capacity")


def test_instances_volumes_and_the_fleet_are_tagged_and_only_instances_list_the_claims() -> None:
    tags = {
        entry["ResourceType"]: {tag["Key"] for tag in entry["Tags"]}
        for entry in encode_fleet_request(an_order())["TagSpecifications"]
    }

    assert tags == {"instance": {"a", "b", "claims"}, "volume": {"a", "b"}, "fleet": {"a", "b"}}


def test_a_context_is_sent_only_if_there_is_one() -> None:
    assert "Context" not in encode_fleet_request(an_order())
    assert encode_fleet_request(an_order(context="ctx"))["Context"] == "ctx"


def test_a_price_overlay_is_detected_by_its_annotation() -> None:
    overlaid = msgspec.structs.replace(
        a_claim(), annotations=FrozenDict({"karpenter.sh/price-overlay-applied": "mine"})
    )

    assert has_price_overlay(overlaid)
    assert not has_price_overlay(a_claim())


def test_a_client_token_is_equal_for_equal_request_and_attempt_only() -> None:
    request, other = (
        encode_fleet_request(an_order()),
        encode_fleet_request(an_order(claim_tags={"claims": "y"})),
    )

    assert client_token(request, 0) == client_token(encode_fleet_request(an_order()), 0)
    assert len({client_token(request, 0), client_token(request, 1), client_token(other, 0)}) == 3
    assert len(client_token(request, 0)) == 64


def test_a_response_has_instances_by_id_and_errors_with_offering() -> None:
    def place(name: str, subnet: str) -> dict[str, Any]:
        overrides = {"InstanceType": name, "SubnetId": subnet, "ImageId": "ami-1"}
        return {"LaunchTemplateAndOverrides": {"Overrides": overrides}}

    answer = decode_fleet_response(
        {
            "Instances": [
                {**place("m5.large", "s-b"), "InstanceType": "m5.large", "InstanceIds": ["i-3"]},
                {**place("m5.large", "s-a"), "InstanceType": "m5.large", "InstanceIds": ["i-2", "i-1"]},
            ],
            "Errors": [
                {**place("c5.large", "s-a"), "ErrorCode": code, "ErrorMessage": "no"}
                for code in ("InsufficientInstanceCapacity", "Odd", "Odd")
            ],
        },
        {"s-a": A, "s-b": B},
    )

    assert [(instance.id, instance.zone) for instance in answer.instances] == [
        ("i-1", A),
        ("i-2", A),
        ("i-3", B),
    ]
    assert [error.is_unavailable_offering for error in answer.errors] == [True, False, False]
    assert (answer.errors[0].instance_type, answer.errors[0].zone) == ("c5.large", A)
    assert format_errors(answer.errors) == "InsufficientInstanceCapacity: no; Odd: no"


def test_a_capacity_error_without_offering_marks_nothing_unavailable() -> None:
    (failure,) = decode_fleet_response({"Errors": [{"ErrorCode": "UnfulfillableCapacity"}]}, {}).errors

    assert not failure.is_unavailable_offering
