"""Launch settings of node classes are decoded with the defaults of the CRD."""

from typing import Any

import pytest

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.nodeclasses import decode_nodeclass
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import (
    Ami,
    ConnectionTracking,
    LaunchSpec,
    MetadataOptions,
    NetworkInterface,
    SelectorTerm,
    Subnet,
)
from dovetail.model.kube.requirements import Operator, RequirementSpec


def read(*, status: dict[str, Any] | None = None, **spec: Any) -> EC2NodeClass:
    raw = {"metadata": {"name": "a"}, "spec": spec, "status": status or {}}
    return decode_nodeclass(Field(raw, DecodeContext(strict=False)))


def test_an_empty_node_class_has_the_defaults_of_the_crd() -> None:
    assert read().launch == LaunchSpec()
    assert read().launch.metadata_options == MetadataOptions(
        endpoint="enabled", ipv6="disabled", hop_limit=1, tokens="required"
    )
    assert read(metadataOptions={"httpTokens": "optional"}).launch.metadata_options == MetadataOptions(
        tokens="optional"
    )


def test_every_field_of_a_selector_term_is_decoded() -> None:
    launch = read(
        subnetSelectorTerms=[{"id": "subnet-1"}, {"tags": {"team": "a"}}],
        securityGroupSelectorTerms=[{"name": "nodes"}],
        amiSelectorTerms=[{"name": "x", "owner": "self"}, {"ssmParameter": "/p"}],
        capacityReservationSelectorTerms=[{"ownerID": "123456789012", "instanceMatchCriteria": "open"}],
        placementGroupSelector={"name": "close"},
    ).launch

    assert launch.subnets == (SelectorTerm(id="subnet-1"), SelectorTerm(tags=FrozenDict({"team": "a"})))
    assert launch.security_groups == (SelectorTerm(name="nodes"),)
    assert launch.amis == (SelectorTerm(name="x", owner="self"), SelectorTerm(ssm_parameter="/p"))
    assert launch.capacity_reservations == (SelectorTerm(owner="123456789012", match_criteria="open"),)
    assert launch.placement_group == SelectorTerm(name="close")


@pytest.mark.parametrize(
    ("written", "seconds"), [(90, 90), ("90s", 90), ("1m30s", 90), ("1h", 3600), ("soon", None)]
)
def test_timeouts_are_seconds_or_durations(written: Any, seconds: int | None) -> None:
    launch = read(connectionTracking={"tcpEstablishedTimeout": written}).launch

    assert launch.connection_tracking == ConnectionTracking(tcp_established=seconds)


def test_false_differs_from_unset() -> None:
    launch = read(associatePublicIPAddress=False, detailedMonitoring=False, userData="").launch

    assert launch.associate_public_ip_address is False
    assert launch.detailed_monitoring is False
    assert launch.user_data == ""
    assert read().launch.associate_public_ip_address is None
    assert read().launch.user_data is None


def test_network_interfaces_are_decoded_with_their_indexes() -> None:
    written = [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
    ]

    assert read(networkInterfaces=written).launch.network_interfaces == (
        NetworkInterface(),
        NetworkInterface(card=1, device=1, kind="efa-only"),
    )


def test_resolved_resources_are_decoded_from_the_status() -> None:
    arch = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
    result = read(
        status={
            "subnets": [{"id": "subnet-1", "zone": "a", "zoneID": "az1"}],
            "securityGroups": [{"id": "sg-1", "name": "nodes"}],
            "amis": [{"id": "ami-1", "name": "x", "deprecated": True, "requirements": [arch]}],
            "instanceProfile": "p",
        }
    ).resolved

    assert result.subnets == (Subnet(id="subnet-1", zone="a", zone_id="az1"),)
    assert result.security_group_ids == ("sg-1",)
    wanted = RequirementSpec("kubernetes.io/arch", Operator.IN, ("amd64",))
    assert result.amis == (Ami(id="ami-1", name="x", deprecated=True, requirements=(wanted,)),)
    assert result.instance_profile == "p"


def test_a_subnet_without_id_only_adds_its_zone() -> None:
    node_class = read(status={"subnets": [{"zone": "a", "zoneID": "az1"}]})

    assert node_class.zones == {"a": "az1"}
    assert node_class.resolved.subnets == ()
