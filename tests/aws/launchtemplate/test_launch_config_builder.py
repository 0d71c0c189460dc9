"""Classes made ready for launching: 120, 127 and 129 of the AWS checklist."""

from typing import Any

import msgspec
import pytest

from dovetail.aws.launchtemplate.launch_config import LaunchAmi, UserDataContext
from dovetail.aws.launchtemplate.launch_config_builder import LaunchConfigCache, build_launch_config
from dovetail.model.frozen import FrozenDict
from dovetail.ports.cloudprovider import NodeClassNotReadyError
from tests.aws.nodeclass.classes import STATUS, resolved_class
from tests.support.aws.nodeclass_account import CLUSTER

BOOT = UserDataContext(ami=LaunchAmi(id="ami-1", name=STATUS["amis"][0]["name"]), max_pods=29)


def template(family: str = "AL2023", *, region: str = "eu-west-1", **spec: Any) -> Any:
    return build_launch_config(resolved_class(family, **spec), CLUSTER, region).template


def disks(family: str, **spec: Any) -> list[tuple[str, int]]:
    mapped = template(family, **spec).get("BlockDeviceMappings", [])
    return [(entry["DeviceName"], entry.get("Ebs", {}).get("VolumeSize", 0)) for entry in mapped]


def test_a_launch_config_contains_the_resolved_status() -> None:
    created = build_launch_config(resolved_class(), CLUSTER, "eu-west-1")

    assert [ami.id for ami in created.amis] == ["ami-1"]
    assert [(subnet.id, subnet.zone, subnet.zone_id) for subnet in created.subnets] == [
        ("subnet-1", "a", "az1")
    ]
    assert created.security_groups == ("sg-1",)
    assert created.instance_profile == "demo_1"


@pytest.mark.parametrize("field", STATUS)
def test_a_node_class_with_an_incomplete_status_is_not_ready(field: str) -> None:
    lacking = {name: entry for name, entry in STATUS.items() if name != field}

    with pytest.raises(NodeClassNotReadyError, match="EC2NodeClass default has no "):
        build_launch_config(resolved_class(status=lacking), CLUSTER, "eu-west-1")


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("AL2", [("/dev/xvda", 20)]),
        ("AL2023", [("/dev/xvda", 20)]),
        ("Bottlerocket", [("/dev/xvda", 4), ("/dev/xvdb", 20)]),
        ("Windows2019", [("/dev/sda1", 50)]),
        ("Windows2025", [("/dev/sda1", 50)]),
        ("Custom", []),
    ],
)
def test_every_family_has_default_block_devices(family: str, expected: list[tuple[str, int]]) -> None:
    assert disks(family) == expected


def test_specified_block_devices_replace_the_defaults() -> None:
    own = [{"deviceName": "/dev/xvdz", "ebs": {"volumeSize": "5Gi"}}]

    assert disks("Bottlerocket", blockDeviceMappings=own) == [("/dev/xvdz", 5)]


@pytest.mark.parametrize(("size", "gib"), [("200G", 187), ("4G", 4), ("2G", 2), ("100Gi", 100)])
def test_volume_sizes_are_rounded_up_to_gib(size: str, gib: int) -> None:
    own = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": size}}]

    assert disks("AL2023", blockDeviceMappings=own) == [("/dev/xvda", gib)]


def test_all_block_device_fields_are_encoded_except_zeros() -> None:
    ebs = {
        "volumeType": "io2",
        "iops": 3000,
        "throughput": 0,
        "encrypted": False,
        "kmsKeyID": "key",
        "snapshotID": "snap-1",
        "volumeInitializationRate": 200,
        "deleteOnTermination": True,
    }
    own = [{"deviceName": "/dev/xvda", "ebs": ebs}]

    assert template(blockDeviceMappings=own)["BlockDeviceMappings"] == [
        {
            "DeviceName": "/dev/xvda",
            "Ebs": {
                "VolumeType": "io2",
                "Iops": 3000,
                "Encrypted": False,
                "KmsKeyId": "key",
                "SnapshotId": "snap-1",
                "VolumeInitializationRate": 200,
                "DeleteOnTermination": True,
            },
        }
    ]


def test_default_volumes_are_encrypted_gp3() -> None:
    [disk] = template("AL2023")["BlockDeviceMappings"]

    assert disk["Ebs"] == {"VolumeSize": 20, "VolumeType": "gp3", "Encrypted": True}


def test_metadata_options_have_the_defaults_of_the_api() -> None:
    assert template()["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpProtocolIpv6": "disabled",
        "HttpPutResponseHopLimit": 1,
        "HttpTokens": "required",
        "InstanceMetadataTags": "disabled",
    }


def test_metadata_options_have_no_ipv6_in_isolated_regions() -> None:
    request = {"httpTokens": "optional", "httpPutResponseHopLimit": 3, "httpProtocolIPv6": "enabled"}

    usual = template(metadataOptions=request)["MetadataOptions"]
    isolated = template(metadataOptions=request, region="us-iso-east-1")["MetadataOptions"]

    assert (usual["HttpTokens"], usual["HttpPutResponseHopLimit"]) == ("optional", 3)
    assert usual["HttpProtocolIpv6"] == "enabled"
    assert "HttpProtocolIpv6" not in isolated


def test_detailed_monitoring_is_off_by_default() -> None:
    assert template()["Monitoring"] == {"Enabled": False}
    assert template(detailedMonitoring=True)["Monitoring"] == {"Enabled": True}


def test_nested_virtualization_is_encoded() -> None:
    request = {"nestedVirtualization": "enabled"}

    assert template(cpuOptions=request)["CpuOptions"] == {"NestedVirtualization": "enabled"}
    assert "CpuOptions" not in template()


def user_data(**spec: Any) -> str:
    created = build_launch_config(resolved_class("Bottlerocket", **spec), CLUSTER, "eu-west-1")
    return created.user_data(BOOT).decode()


def test_bottlerocket_mount_commands_depend_on_the_ami_version() -> None:
    def terms(alias: str) -> list[dict[str, str]]:
        return [{"alias": alias}]

    raid = {"instanceStorePolicy": "RAID0"}

    assert "--dirs" in user_data(**raid, amiSelectorTerms=terms("bottlerocket@v1.45.2"))
    assert "--dirs" not in user_data(**raid, amiSelectorTerms=terms("bottlerocket@v1.46.0"))
    assert "--dirs" in user_data(**raid, amiSelectorTerms=terms("bottlerocket@latest"))
    assert "--dirs" in user_data(**raid, amiSelectorTerms=[{"id": "ami-1"}])
    assert "ephemeral-storage" not in user_data()


def test_user_data_contains_node_class_and_instance_values() -> None:
    boot = msgspec.structs.replace(BOOT, labels=FrozenDict({"team": "a"}))
    created = build_launch_config(resolved_class(userData="#!/bin/sh\necho mine\n"), CLUSTER, "eu-west-1")

    message = created.user_data(boot).decode()

    assert "echo mine" in message
    assert "team=a" in message
    assert "maxPods: 29" in message


def test_the_launch_config_is_the_same_object_until_its_inputs_change() -> None:
    cluster = [CLUSTER]
    book = LaunchConfigCache(lambda: cluster[0], region="eu-west-1")
    first = book.launch_config(resolved_class())

    assert book.launch_config(resolved_class()) is first
    assert book.launch_config(resolved_class(userData="other")) is not first
    again = book.launch_config(resolved_class())
    cluster[0] = msgspec.structs.replace(CLUSTER, dns="fd00::a")

    assert book.launch_config(resolved_class()) is not again
    assert book.launch_config(resolved_class()).ipv6
