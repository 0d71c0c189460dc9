"""Classes made ready for launching: 120, 127 and 129 of the AWS checklist."""

from typing import Any

import msgspec
import pytest

from dovetail.aws.launchtemplate.launch_config import Boot, Image
from dovetail.aws.launchtemplate.launch_config_builder import ClassBook, launchable_of
from dovetail.model.frozen import FrozenDict
from dovetail.ports.cloudprovider import NodeClassNotReady
from tests.aws.nodeclass.classes import STATUS, resolved_class
from tests.support.moto_nodeclass import CLUSTER

BOOT = Boot(image=Image(id="ami-1", name=STATUS["amis"][0]["name"]), max_pods=29)


def template(family: str = "AL2023", *, region: str = "eu-west-1", **spec: Any) -> Any:
    return launchable_of(resolved_class(family, **spec), CLUSTER, region).template


def disks(family: str, **spec: Any) -> list[tuple[str, int]]:
    mapped = template(family, **spec).get("BlockDeviceMappings", [])
    return [(one["DeviceName"], one.get("Ebs", {}).get("VolumeSize", 0)) for one in mapped]


def test_a_class_is_ready_with_what_its_status_found() -> None:
    made = launchable_of(resolved_class(), CLUSTER, "eu-west-1")

    assert [one.id for one in made.images] == ["ami-1"]
    assert [(one.id, one.zone, one.zone_id) for one in made.subnets] == [("subnet-1", "a", "az1")]
    assert made.security_groups == ("sg-1",)
    assert made.instance_profile == "demo_1"


@pytest.mark.parametrize("field", STATUS)
def test_a_class_that_found_too_little_is_not_ready(field: str) -> None:
    lacking = {name: one for name, one in STATUS.items() if name != field}

    with pytest.raises(NodeClassNotReady, match="EC2NodeClass default has as yet no "):
        launchable_of(resolved_class(status=lacking), CLUSTER, "eu-west-1")


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
def test_every_family_has_its_disks(family: str, expected: list[tuple[str, int]]) -> None:
    assert disks(family) == expected


def test_disks_of_ones_own_replace_all_others() -> None:
    own = [{"deviceName": "/dev/xvdz", "ebs": {"volumeSize": "5Gi"}}]

    assert disks("Bottlerocket", blockDeviceMappings=own) == [("/dev/xvdz", 5)]


@pytest.mark.parametrize(("size", "gib"), [("200G", 187), ("4G", 4), ("2G", 2), ("100Gi", 100)])
def test_sizes_are_rounded_up_to_what_ec2_counts_in(size: str, gib: int) -> None:
    own = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": size}}]

    assert disks("AL2023", blockDeviceMappings=own) == [("/dev/xvda", gib)]


def test_all_that_is_said_of_a_disk_is_handed_on_and_zeros_are_not() -> None:
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


def test_usual_disks_are_encrypted_gp3() -> None:
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


def test_metadata_options_are_as_asked_for_and_without_ipv6_in_isolated_regions() -> None:
    asked = {"httpTokens": "optional", "httpPutResponseHopLimit": 3, "httpProtocolIPv6": "enabled"}

    usual = template(metadataOptions=asked)["MetadataOptions"]
    isolated = template(metadataOptions=asked, region="us-iso-east-1")["MetadataOptions"]

    assert (usual["HttpTokens"], usual["HttpPutResponseHopLimit"]) == ("optional", 3)
    assert usual["HttpProtocolIpv6"] == "enabled"
    assert "HttpProtocolIpv6" not in isolated


def test_monitoring_is_plain_unless_asked_for() -> None:
    assert template()["Monitoring"] == {"Enabled": False}
    assert template(detailedMonitoring=True)["Monitoring"] == {"Enabled": True}


def test_nested_virtualization_is_handed_on() -> None:
    asked = {"nestedVirtualization": "enabled"}

    assert template(cpuOptions=asked)["CpuOptions"] == {"NestedVirtualization": "enabled"}
    assert "CpuOptions" not in template()


def user_data(**spec: Any) -> str:
    made = launchable_of(resolved_class("Bottlerocket", **spec), CLUSTER, "eu-west-1")
    return made.user_data(BOOT).decode()


def test_how_bottlerocket_mounts_its_disks_follows_from_the_version_that_boots() -> None:
    def terms(alias: str) -> list[dict[str, str]]:
        return [{"alias": alias}]

    raid = {"instanceStorePolicy": "RAID0"}

    assert "--dirs" in user_data(**raid, amiSelectorTerms=terms("bottlerocket@v1.45.2"))
    assert "--dirs" not in user_data(**raid, amiSelectorTerms=terms("bottlerocket@v1.46.0"))
    assert "--dirs" in user_data(**raid, amiSelectorTerms=terms("bottlerocket@latest"))
    assert "--dirs" in user_data(**raid, amiSelectorTerms=[{"id": "ami-1"}])
    assert "ephemeral-storage" not in user_data()


def test_user_data_says_what_the_class_and_the_machine_say() -> None:
    boot = msgspec.structs.replace(BOOT, labels=FrozenDict({"team": "a"}))
    made = launchable_of(resolved_class(userData="#!/bin/sh\necho mine\n"), CLUSTER, "eu-west-1")

    told = made.user_data(boot).decode()

    assert "echo mine" in told
    assert "team=a" in told
    assert "maxPods: 29" in told


def test_the_book_answers_with_the_same_object_until_class_or_cluster_change() -> None:
    cluster = [CLUSTER]
    book = ClassBook(lambda: cluster[0], region="eu-west-1")
    first = book.launchable(resolved_class())

    assert book.launchable(resolved_class()) is first
    assert book.launchable(resolved_class(userData="other")) is not first
    again = book.launchable(resolved_class())
    cluster[0] = msgspec.structs.replace(CLUSTER, dns="fd00::a")

    assert book.launchable(resolved_class()) is not again
    assert book.launchable(resolved_class()).ipv6
