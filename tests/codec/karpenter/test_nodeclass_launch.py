"""What launching reads of a node class: 18 of the AWS checklist, and what is left out."""

from typing import Any

import pytest

from dovetail.codec.fields import Field, Findings
from dovetail.codec.karpenter.nodeclasses import decode_node_class
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import (
    ConnectionTracking,
    Image,
    Interface,
    LaunchSpec,
    MetadataOptions,
    SelectorTerm,
    Subnet,
)
from dovetail.model.kube.requirements import Operator, RequirementSpec


def read(*, status: dict[str, Any] | None = None, **spec: Any) -> NodeClass:
    raw = {"metadata": {"name": "a"}, "spec": spec, "status": status or {}}
    return decode_node_class(Field(raw, Findings(written_by_hand=False)))


def test_a_class_that_says_nothing_has_the_defaults_of_the_api() -> None:
    assert read().launch == LaunchSpec()
    assert read().launch.metadata == MetadataOptions(
        endpoint="enabled", ipv6="disabled", hop_limit=1, tokens="required"
    )
    assert read(metadataOptions={"httpTokens": "optional"}).launch.metadata == MetadataOptions(
        tokens="optional"
    )


def test_terms_are_read_with_all_that_they_say() -> None:
    launch = read(
        subnetSelectorTerms=[{"id": "subnet-1"}, {"tags": {"team": "a"}}],
        securityGroupSelectorTerms=[{"name": "nodes"}],
        amiSelectorTerms=[{"name": "x", "owner": "self"}, {"ssmParameter": "/p"}],
        capacityReservationSelectorTerms=[
            {"ownerID": "123456789012", "instanceMatchCriteria": "open"}
        ],
        placementGroupSelector={"name": "close"},
    ).launch

    assert launch.subnets == (
        SelectorTerm(id="subnet-1"),
        SelectorTerm(tags=FrozenDict({"team": "a"})),
    )
    assert launch.security_groups == (SelectorTerm(name="nodes"),)
    assert launch.images == (
        SelectorTerm(name="x", owner="self"),
        SelectorTerm(ssm_parameter="/p"),
    )
    assert launch.reservations == (SelectorTerm(owner="123456789012", match_criteria="open"),)
    assert launch.placement_group == SelectorTerm(name="close")


@pytest.mark.parametrize(
    ("written", "seconds"), [(90, 90), ("90s", 90), ("1m30s", 90), ("1h", 3600), ("soon", None)]
)
def test_timeouts_are_numbers_of_seconds_or_durations(written: Any, seconds: int | None) -> None:
    launch = read(connectionTracking={"tcpEstablishedTimeout": written}).launch

    assert launch.connection_tracking == ConnectionTracking(tcp_established=seconds)


def test_saying_no_is_not_the_same_as_saying_nothing() -> None:
    launch = read(associatePublicIPAddress=False, detailedMonitoring=False, userData="").launch

    assert launch.public_address is False
    assert launch.detailed_monitoring is False
    assert launch.user_data == ""
    assert read().launch.public_address is None
    assert read().launch.user_data is None


def test_interfaces_are_read_by_their_places() -> None:
    written = [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
    ]

    assert read(networkInterfaces=written).launch.interfaces == (
        Interface(),
        Interface(card=1, device=1, kind="efa-only"),
    )


def test_what_was_found_is_read_from_the_status() -> None:
    arch = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
    found = read(
        status={
            "subnets": [{"id": "subnet-1", "zone": "a", "zoneID": "az1"}],
            "securityGroups": [{"id": "sg-1", "name": "nodes"}],
            "amis": [{"id": "ami-1", "name": "x", "deprecated": True, "requirements": [arch]}],
            "instanceProfile": "p",
        }
    ).found

    assert found.subnets == (Subnet(id="subnet-1", zone="a", zone_id="az1"),)
    assert found.security_groups == ("sg-1",)
    wanted = RequirementSpec("kubernetes.io/arch", Operator.IN, ("amd64",))
    assert found.images == (Image(id="ami-1", name="x", deprecated=True, requirements=(wanted,)),)
    assert found.instance_profile == "p"


def test_a_subnet_without_an_id_says_only_where_a_class_reaches() -> None:
    node_class = read(status={"subnets": [{"zone": "a", "zoneID": "az1"}]})

    assert node_class.zones == {"a": "az1"}
    assert node_class.found.subnets == ()
