"""The hash of a node class: 21–27 of the AWS checklist.

The hashes differ from Karpenter's, and so does the version: a claim with a hash of
Karpenter gets a new hash instead of a replacement.
"""

from base64 import b64encode
from typing import Any

import pytest

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.nodeclasses import decode_nodeclass
from dovetail.core.nodeclass.hash import compute_nodeclass_hash
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass

DISK = {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "2G", "encrypted": False}}
OTHER_DISK = {"deviceName": "/dev/xvdb", "rootVolume": True}
BASE: dict[str, Any] = {
    "role": "role-1",
    "amiSelectorTerms": [{"alias": "al2023@latest"}],
    "subnetSelectorTerms": [{"tags": {"team": "a"}}],
    "securityGroupSelectorTerms": [{"tags": {"team": "a"}}],
    "tags": {"one": "1", "two": "2"},
    "userData": "first",
    "detailedMonitoring": False,
    "blockDeviceMappings": [DISK, OTHER_DISK],
    "metadataOptions": {"httpTokens": "optional"},
    "kubelet": {"maxPods": 12},
}
STATIC: list[dict[str, Any]] = [
    {"role": "role-2"},
    {"role": None, "instanceProfile": "role-1"},
    {"userData": "second"},
    {"tags": {"one": "1"}},
    {"context": "c"},
    {"detailedMonitoring": True},
    {"detailedMonitoring": None},
    {"associatePublicIPAddress": False},
    {"instanceStorePolicy": "RAID0"},
    {"amiFamily": "Custom"},
    {"kubelet": {"maxPods": 21}},
    {"kubelet": {"maxPods": 12, "clusterDNS": ["10.0.0.1"]}},
    {"kubelet": {"maxPods": "12"}},
    {"kubelet": {"maxPods": "vcpus * 10"}},
    {"kubelet": {"maxPods": 12, "kubeReserved": {"cpu": "vcpus * 10"}}},
    {"kubelet": {"maxPods": 12, "systemReserved": {"cpu": "vcpus * 10"}}},
    {"kubelet": {"maxPods": 12, "containerLogMaxSize": "50Mi"}},
    {"kubelet": None},
    *(
        {"metadataOptions": {"httpTokens": "optional"} | fields}
        for fields in (
            {"httpEndpoint": "disabled"},
            {"httpProtocolIPv6": "enabled"},
            {"httpPutResponseHopLimit": 10},
            {"httpTokens": "required"},
        )
    ),
    *(
        {"blockDeviceMappings": [{**DISK, "ebs": {**DISK["ebs"], **fields}}, OTHER_DISK]}  # type: ignore[dict-item]
        for fields in (
            {"encrypted": True},
            {"deleteOnTermination": True},
            {"iops": 10},
            {"throughput": 10},
            {"kmsKeyID": "key"},
            {"snapshotID": "snap"},
            {"volumeType": "io1"},
            {"volumeSize": "10G"},
            {"volumeInitializationRate": 100},
        )
    ),
    {"blockDeviceMappings": [DISK]},
    {"networkInterfaces": [{"networkCardIndex": 0, "deviceIndex": 0}]},
    {"connectionTracking": {"udpTimeout": 45}},
    {"cpuOptions": {"nestedVirtualization": "enabled"}},
    {"placementGroupSelector": {"name": "close"}},
]


def node_class(**spec: Any) -> EC2NodeClass:
    whole = {key: value for key, value in {**BASE, **spec}.items() if value is not None}
    return decode_nodeclass(Field({"metadata": {"name": "a"}, "spec": whole}, DecodeContext()))


def hashed(**spec: Any) -> str:
    return compute_nodeclass_hash(node_class(**spec))


def test_each_launch_setting_changes_the_hash() -> None:
    hashes = {hashed(**fields) for fields in STATIC}

    assert len(hashes) == len(STATIC)
    assert hashed() not in hashes


@pytest.mark.parametrize(
    "spec",
    [
        {"amiSelectorTerms": [{"alias": "al2023@v20250101"}]},
        {"subnetSelectorTerms": [{"id": "subnet-1"}]},
        {"securityGroupSelectorTerms": [{"id": "sg-1"}]},
        {"capacityReservationSelectorTerms": [{"id": "cr-1"}]},
        {"ipPrefixCount": 3},
        {"amiFamily": "AL2023"},
        {"tags": {"two": "2", "one": "1"}},
        {"blockDeviceMappings": [OTHER_DISK, DISK]},
        {"metadataOptions": {"httpTokens": "optional", "httpEndpoint": "enabled"}},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_selectors_order_and_defaults_do_not_change_the_hash(spec: dict[str, Any]) -> None:
    assert hashed(**spec) == hashed()


@pytest.mark.parametrize(
    ("kubelet", "pinned"),
    [
        (None, "12591644917042898432"),
        ({"maxPods": 12}, "7500172101305155433"),
        (
            {
                "maxPods": 12,
                "podsPerCore": 4,
                "kubeReserved": {"cpu": "100m", "pid": 100},
                "systemReserved": {"memory": "1Gi"},
                "evictionHard": {"memory.available": "5%"},
                "clusterDNS": ["10.0.0.1"],
                "cpuCFSQuota": False,
            },
            "2310714506134900063",
        ),
        (
            {
                "allowedUnsafeSysctls": ["net.*"],
                "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
                "logging": {"verbosity": 2},
            },
            "5342183974675385266",
        ),
    ],
)
def test_the_hash_of_a_node_class_stays_the_same_after_an_upgrade(
    kubelet: dict[str, Any] | None, pinned: str
) -> None:
    spec = {
        "role": "r",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"id": "subnet-1"}],
        "securityGroupSelectorTerms": [{"id": "sg-1"}],
        "kubelet": kubelet,
    }
    decoded = decode_nodeclass(Field({"metadata": {"name": "a"}, "spec": spec}, DecodeContext()))

    assert compute_nodeclass_hash(decoded) == pinned


def test_different_ca_bundle_changes_the_hash() -> None:
    assert compute_nodeclass_hash(node_class(), "a") != compute_nodeclass_hash(node_class(), "b")


def test_line_ends_of_the_ca_bundle_do_not_change_the_hash() -> None:
    def bundle(text: str) -> str:
        return b64encode(text.encode()).decode()

    unix = compute_nodeclass_hash(node_class(), bundle("-----BEGIN\nabc\n-----END\n"))

    assert compute_nodeclass_hash(node_class(), bundle("-----BEGIN\r\nabc\r\n-----END")) == unix
    assert compute_nodeclass_hash(node_class(), bundle("-----BEGIN\nabd\n-----END\n")) != unix
