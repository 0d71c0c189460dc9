"""The hash of a node class: 21–27 of the AWS checklist.

The numbers are our own: the version says so, and a claim that Karpenter stamped
is stamped anew instead of being replaced.
"""

from base64 import b64encode
from typing import Any

import pytest

from dovetail.codec.fields import Field, Findings
from dovetail.codec.karpenter.nodeclasses import decode_node_class
from dovetail.core.nodeclass.hash import (
    CLASS_HASH_VERSION,
    class_hash,
    class_stamp,
    restamped_for_class,
)
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import TRUE, Condition

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
    {"kubelet": None},
    *(
        {"metadataOptions": {"httpTokens": "optional"} | one}
        for one in (
            {"httpEndpoint": "disabled"},
            {"httpProtocolIPv6": "enabled"},
            {"httpPutResponseHopLimit": 10},
            {"httpTokens": "required"},
        )
    ),
    *(
        {"blockDeviceMappings": [{**DISK, "ebs": {**DISK["ebs"], **one}}, OTHER_DISK]}  # type: ignore[dict-item]
        for one in (
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


def node_class(**spec: Any) -> NodeClass:
    whole = {key: one for key, one in {**BASE, **spec}.items() if one is not None}
    return decode_node_class(Field({"metadata": {"name": "a"}, "spec": whole}, Findings()))


def hashed(**spec: Any) -> str:
    return class_hash(node_class(**spec))


def test_each_change_of_what_machines_are_made_from_gives_another_hash() -> None:
    found = {hashed(**one) for one in STATIC}

    assert len(found) == len(STATIC)
    assert hashed() not in found


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
    ids=lambda one: next(iter(one)),
)
def test_selectors_order_and_defaults_do_not_change_the_hash(spec: dict[str, Any]) -> None:
    assert hashed(**spec) == hashed()


def test_another_certificate_authority_is_another_hash() -> None:
    assert class_hash(node_class(), "a") != class_hash(node_class(), "b")


def test_the_same_certificates_with_other_line_ends_are_the_same() -> None:
    def bundle(text: str) -> str:
        return b64encode(text.encode()).decode()

    unix = class_hash(node_class(), bundle("-----BEGIN\nabc\n-----END\n"))

    assert class_hash(node_class(), bundle("-----BEGIN\r\nabc\r\n-----END")) == unix
    assert class_hash(node_class(), bundle("-----BEGIN\nabd\n-----END\n")) != unix


def a_claim(*, drifted: bool = False, **annotations: str) -> NodeClaim:
    conditions = {"Drifted": Condition(status=TRUE)} if drifted else {}
    known = {
        label_keys.EC2_NODE_CLASS_HASH: "old",
        label_keys.EC2_NODE_CLASS_HASH_VERSION: "v6",
        **annotations,
    }
    return NodeClaim(name="a", annotations=FrozenDict(known), conditions=FrozenDict(conditions))


def test_claims_stamped_by_other_rules_are_stamped_anew_and_drifted_ones_keep_their_hash() -> None:
    stamp = class_stamp(node_class())
    version = {label_keys.EC2_NODE_CLASS_HASH_VERSION: CLASS_HASH_VERSION}

    assert restamped_for_class(a_claim(), stamp) == stamp
    assert restamped_for_class(a_claim(drifted=True), stamp) == version
    assert restamped_for_class(a_claim(**version), stamp) == {}
