"""The emulator refuses what EC2 refuses: unsupported settings, limits, reused tokens."""

from base64 import b64encode
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.aws.conftest import Launchpad, a_client, error_code, fleet_errors, launched_ids
from tests.support.moto.behaviour import Behaviour, CapacityShortage
from tests.support.moto.server import MotoAws

TRACKING = [{"DeviceIndex": 0, "ConnectionTrackingSpecification": {"UdpTimeout": 30}}]
SECOND_CARD = [{"DeviceIndex": 0, "NetworkCardIndex": 0}, {"DeviceIndex": 1, "NetworkCardIndex": 1}]
FOUR_INTERFACES = [{"DeviceIndex": number} for number in range(4)]
EFA = [{"DeviceIndex": 0, "InterfaceType": "efa"}]


@pytest.mark.parametrize(
    ("data", "unsupported", "supported"),
    [
        ({"Placement": {"GroupName": "close"}}, "t3.medium", "c5.large"),
        ({"CpuOptions": {"NestedVirtualization": "enabled"}}, "m5.large", "m8i.large"),
        ({"NetworkInterfaces": SECOND_CARD}, "c5.large", "c6in.32xlarge"),
        ({"NetworkInterfaces": FOUR_INTERFACES}, "m5.large", "m5.xlarge"),
        ({"NetworkInterfaces": EFA}, "m5.large", "m5n.24xlarge"),
        ({"NetworkInterfaces": TRACKING}, "m4.large", "m5.large"),
        ({"EnclaveOptions": {"Enabled": True}}, "t3.medium", "m5.xlarge"),
    ],
)
def test_a_dry_run_is_refused_if_the_type_does_not_support_a_setting(
    moto: MotoAws, launchpad: Launchpad, data: dict[str, Any], unsupported: str, supported: str
) -> None:
    moto.capacity.placement_groups["close"] = "cluster"
    template = launchpad.template(**data)

    assert launchpad.dry_run(unsupported, template) == "InvalidParameterCombination"
    assert launchpad.dry_run(supported, template) == "DryRunOperation"
    assert fleet_errors(launchpad.fleet(unsupported, supported)) in (
        [],  # The supported type came first.
        [(unsupported, "InvalidParameterCombination")],
    )


def test_a_spread_placement_group_accepts_burstable_types(moto: MotoAws, launchpad: Launchpad) -> None:
    moto.capacity.placement_groups["apart"] = "spread"
    template = launchpad.template(Placement={"GroupName": "apart"})

    assert launchpad.dry_run("t3.medium", template) == "DryRunOperation"


def test_refusals_of_types_can_be_switched_off(moto: MotoAws, launchpad: Launchpad) -> None:
    template = launchpad.template(NetworkInterfaces=EFA)
    moto.behave(Behaviour(unsupported_settings=False))

    assert launchpad.dry_run("m5.large", template) == "DryRunOperation"


def test_a_disk_smaller_than_its_snapshot_is_refused(ec2: Any, launchpad: Launchpad) -> None:
    volume = ec2.create_volume(AvailabilityZone="eu-west-1a", Size=30)["VolumeId"]
    snapshot = ec2.create_snapshot(VolumeId=volume)["SnapshotId"]
    for name, size in (("small", 20), ("equal", 30)):
        disk = {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": size, "SnapshotId": snapshot}}
        launchpad.template(name, BlockDeviceMappings=[disk])

    assert launchpad.dry_run("m5.large", "small") == "InvalidBlockDeviceMapping"
    assert launchpad.dry_run("m5.large", "equal") == "DryRunOperation"


def test_a_missing_instance_profile_is_refused(launchpad: Launchpad) -> None:
    template = launchpad.template(IamInstanceProfile={"Name": "other"})

    with pytest.raises(ClientError, match="Invalid IAM Instance Profile name"):
        launchpad.ec2.run_instances(
            DryRun=True,
            MinCount=1,
            MaxCount=1,
            InstanceType="m5.large",
            LaunchTemplate={"LaunchTemplateName": template},
        )


def test_a_new_instance_profile_is_known_after_a_delay(moto: MotoAws, launchpad: Launchpad) -> None:
    moto.behave(Behaviour(profile_delay=3600))
    template = launchpad.template()
    assert launchpad.dry_run("m5.large", template) == "InvalidParameterValue"

    moto.behave(Behaviour(profile_delay=0))
    assert launchpad.dry_run("m5.large", template) == "DryRunOperation"


def test_a_caller_without_permission_is_refused_before_a_dry_run(moto: MotoAws, launchpad: Launchpad) -> None:
    template = launchpad.template()
    moto.middleware.is_forbidden = lambda operation: operation == "RunInstances"

    assert launchpad.dry_run("m5.large", template) == "UnauthorizedOperation"


def test_user_data_is_limited_before_base64(launchpad: Launchpad) -> None:
    launchpad.template("fits", UserData=b64encode(b"x" * 16384).decode())

    with pytest.raises(ClientError, match="limited to 16384 bytes"):
        launchpad.template("too-long", UserData=b64encode(b"x" * 16385).decode())


@pytest.mark.parametrize(
    ("tags", "code"),
    [
        ({f"key-{number}": "" for number in range(50)}, ""),
        ({f"key-{number}": "" for number in range(51)}, "TagLimitExceeded"),
        ({"k" * 128: "v" * 256}, ""),
        ({"k" * 129: ""}, "InvalidParameterValue"),
        ({"key": "v" * 257}, "InvalidParameterValue"),
        ({"aws:key": ""}, "InvalidParameterValue"),
    ],
)
def test_tags_have_limits(launchpad: Launchpad, tags: dict[str, str], code: str) -> None:
    launchpad.template()
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    specifications = [{"ResourceType": "instance", "Tags": pairs}]

    if code:
        with pytest.raises(ClientError) as raised:
            launchpad.fleet("m5.large", TagSpecifications=specifications)
        assert error_code(raised.value) == code
    else:
        assert launched_ids(launchpad.fleet("m5.large", TagSpecifications=specifications))


def test_a_resource_has_at_most_fifty_tags_in_all(launchpad: Launchpad) -> None:
    launchpad.template()
    pairs = [{"Key": f"key-{number}", "Value": ""} for number in range(49)]
    specifications = [{"ResourceType": "instance", "Tags": pairs}]
    ids = launched_ids(launchpad.fleet("m5.large", TagSpecifications=specifications))
    more = [{"Key": key, "Value": ""} for key in ("Name", "Owner")]

    launchpad.ec2.create_tags(Resources=ids, Tags=more[:1])
    with pytest.raises(ClientError, match="TagLimitExceeded"):
        launchpad.ec2.create_tags(Resources=ids, Tags=more)


def test_a_fleet_has_at_most_fifty_launch_templates(launchpad: Launchpad) -> None:
    config = {"LaunchTemplateSpecification": {"LaunchTemplateName": "usual"}, "Overrides": []}

    with pytest.raises(ClientError, match="at most 50"):
        launchpad.ec2.create_fleet(
            LaunchTemplateConfigs=[config] * 51,
            TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "spot"},
        )


def test_three_hundred_overrides_are_a_limit_of_fleets_that_last(launchpad: Launchpad) -> None:
    launchpad.template()
    names = ["m5.large"] * 301

    assert launched_ids(launchpad.fleet(*names))
    with pytest.raises(ClientError, match="at most 300"):
        launchpad.fleet(*names, fleet_type="maintain")


def test_a_filter_has_at_most_two_hundred_values(ec2: Any) -> None:
    with pytest.raises(ClientError, match="FilterLimitExceeded"):
        ec2.describe_instances(Filters=[{"Name": "instance-id", "Values": ["i-1"] * 201}])


def test_limits_can_be_switched_off(moto: MotoAws, launchpad: Launchpad) -> None:
    moto.behave(Behaviour(limits=False))

    launchpad.template("x" * 129, UserData=b64encode(b"x" * 16385).decode())


def test_a_repeated_client_token_gets_the_first_answer(launchpad: Launchpad) -> None:
    launchpad.template()

    first, second = (launchpad.fleet("m5.large", count=2, ClientToken="token") for _ in range(2))

    assert launched_ids(first) == launched_ids(second)
    assert len(launchpad.ec2.describe_instances()["Reservations"]) == 2


def test_a_client_token_with_another_request_is_refused(launchpad: Launchpad) -> None:
    launchpad.template()
    launchpad.fleet("m5.large", count=1, ClientToken="token")

    with pytest.raises(ClientError) as raised:
        launchpad.fleet("m5.large", count=2, ClientToken="token")
    assert error_code(raised.value) == "IdempotentParameterMismatch"


def test_shortages_are_errors_of_their_overrides(moto: MotoAws, launchpad: Launchpad) -> None:
    launchpad.template()
    moto.behave(
        Behaviour(
            shortages=(
                CapacityShortage(instance_type="c5.*"),
                CapacityShortage(instance_type="m5.large", code="UnfulfillableCapacity"),
            )
        )
    )

    response = launchpad.fleet("c5.large", "m5.large", "m5.xlarge")

    assert fleet_errors(response) == [
        ("c5.large", "InsufficientInstanceCapacity"),
        ("m5.large", "UnfulfillableCapacity"),
    ]
    assert [group["InstanceType"] for group in response["Instances"]] == ["m5.xlarge"]


def test_quotas_limit_spot_instances_and_vcpus(moto: MotoAws, launchpad: Launchpad) -> None:
    launchpad.template()
    moto.behave(Behaviour(max_spot_instances=2, max_on_demand_vcpus=6))

    spot = launchpad.fleet("m5.large", count=3, kind="spot", SpotOptions={})
    on_demand = launchpad.fleet("m5.large", "m5.xlarge", count=4)

    assert len(launched_ids(spot)) == 2
    assert fleet_errors(spot) == [("m5.large", "MaxSpotInstanceCountExceeded")]
    assert len(launched_ids(on_demand)) == 3
    assert {code for _, code in fleet_errors(on_demand)} == {"VcpuLimitExceeded"}


def test_a_full_subnet_is_an_error_of_its_overrides(launchpad: Launchpad) -> None:
    launchpad.template()

    response = launchpad.fleet("m5.large", count=12)

    assert len(launched_ids(response)) == 11, "a /28 has 16 addresses, and AWS keeps 5"
    assert fleet_errors(response) == [("m5.large", "InsufficientFreeAddressesInSubnet")]


def test_a_new_instance_is_unknown_for_a_while(moto: MotoAws, launchpad: Launchpad) -> None:
    now = [0.0]
    moto.middleware.failures.clock = lambda: now[0]
    moto.behave(Behaviour(instance_delay=10))
    launchpad.template()
    ids = launched_ids(launchpad.fleet("m5.large"))

    assert launchpad.ec2.describe_instances()["Reservations"] == []
    for call in (
        lambda: launchpad.ec2.describe_instances(InstanceIds=ids),
        lambda: launchpad.ec2.terminate_instances(InstanceIds=ids),
        lambda: launchpad.ec2.create_tags(Resources=ids, Tags=[{"Key": "Name", "Value": "a"}]),
    ):
        with pytest.raises(ClientError) as raised:
            call()
        assert error_code(raised.value) == "InvalidInstanceID.NotFound"

    now[0] += 11
    assert len(launchpad.ec2.describe_instances(InstanceIds=ids)["Reservations"]) == 1


def test_a_terminated_instance_is_visible_for_an_hour(moto: MotoAws, launchpad: Launchpad) -> None:
    now = [0.0]
    moto.middleware.failures.clock = lambda: now[0]
    moto.behave(Behaviour())
    launchpad.template()
    ids = launched_ids(launchpad.fleet("m5.large"))
    launchpad.ec2.terminate_instances(InstanceIds=ids)

    now[0] += 3500
    [reservation] = launchpad.ec2.describe_instances()["Reservations"]
    assert reservation["Instances"][0]["State"]["Name"] == "terminated"
    launchpad.ec2.terminate_instances(InstanceIds=ids)
    now[0] += 200
    assert launchpad.ec2.describe_instances()["Reservations"] == []


def test_a_spot_instance_leaves_its_request_behind(launchpad: Launchpad) -> None:
    launchpad.template()
    ids = launched_ids(launchpad.fleet("m5.large", kind="spot", SpotOptions={}))
    [reservation] = launchpad.ec2.describe_instances(InstanceIds=ids)["Reservations"]
    [instance] = reservation["Instances"]

    def states() -> list[tuple[str, str]]:
        described = launchpad.ec2.describe_spot_instance_requests()["SpotInstanceRequests"]
        return [(request["SpotInstanceRequestId"], request["State"]) for request in described]

    assert states() == [(instance["SpotInstanceRequestId"], "active")]
    launchpad.ec2.terminate_instances(InstanceIds=ids)
    assert states() == [(instance["SpotInstanceRequestId"], "closed")]


def test_a_throttled_call_of_another_service_does_not_use_the_rate_of_ec2(
    moto: MotoAws, launchpad: Launchpad
) -> None:
    moto.behave(Behaviour(request_rates=True))
    iam = a_client(moto, "iam")

    assert all(iam.list_instance_profiles() for _ in range(60))
