"""Drift from a node class: 28–35 of the AWS checklist."""

from typing import Any

import msgspec
import pytest

from dovetail.core.nodeclass.drift import DriftUnknown, Machine, class_drift
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation, NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import Found, Image, PlacementGroup, Subnet
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.requirements import Operator, Requirement, Requirements, RequirementSpec
from dovetail.model.kube.resources import NOTHING

HASH, VERSION = label_keys.EC2_NODE_CLASS_HASH, label_keys.EC2_NODE_CLASS_HASH_VERSION


def for_arch(ami_id: str, arch: str) -> Image:
    wanted = RequirementSpec(label_keys.ARCH, Operator.IN, (arch,))
    return Image(id=ami_id, requirements=(wanted,))


def a_type(name: str, arch: str) -> InstanceType:
    return InstanceType(
        name=name,
        requirements=Requirements.of([Requirement.one_of(label_keys.ARCH, arch)]),
        capacity=NOTHING,
        overhead=NOTHING,
        offerings=(),
    )


TYPES = {"m5.large": a_type("m5.large", "amd64"), "m6g.large": a_type("m6g.large", "arm64")}
CLASS = NodeClass(
    annotations=FrozenDict({HASH: "1", VERSION: "v"}),
    found=Found(
        subnets=(Subnet(id="subnet-1"), Subnet(id="subnet-2")),
        security_groups=("sg-1", "sg-2"),
        images=(for_arch("ami-new", "amd64"), for_arch("ami-arm", "arm64")),
    ),
)
CLAIM = NodeClaim(
    name="a",
    annotations=FrozenDict({HASH: "1", VERSION: "v"}),
    labels=FrozenDict({label_keys.INSTANCE_TYPE: "m5.large"}),
    image_id="ami-new",
    provider_id="aws:///a/i-1",
)
MACHINE = Machine(subnet="subnet-1", security_groups=frozenset({"sg-1", "sg-2"}))


def drift(
    claim: dict[str, Any] | None = None,
    node_class: dict[str, Any] | None = None,
    machine: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
) -> str | None:
    changed = {"labels": CLAIM.labels.with_items(labels or {}), **(claim or {})}
    return class_drift(
        msgspec.structs.replace(CLAIM, **changed),
        msgspec.structs.replace(CLASS, **(node_class or {})),
        msgspec.structs.replace(MACHINE, **(machine or {})),
        TYPES,
    )


def found(**fields: Any) -> dict[str, Any]:
    return {"found": msgspec.structs.replace(CLASS.found, **fields)}


def test_a_machine_that_its_class_would_launch_today_has_not_drifted() -> None:
    assert drift() is None


def test_another_hash_by_the_same_rules_is_drift() -> None:
    assert drift({"annotations": FrozenDict({HASH: "0", VERSION: "v"})}) == "NodeClassDrift"


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {HASH: "0"},
        {VERSION: "v"},
        {HASH: "0", VERSION: "v6"},
    ],
)
def test_hashes_that_are_missing_or_follow_other_rules_are_no_drift(
    annotations: dict[str, str],
) -> None:
    assert drift({"annotations": FrozenDict(annotations)}) is None
    assert drift(node_class={"annotations": FrozenDict(annotations)}) is None


def test_an_image_that_its_type_would_not_boot_any_more_is_drift() -> None:
    assert drift({"image_id": "ami-old"}) == "AMIDrift"
    assert drift({"image_id": "ami-arm"}) == "AMIDrift"
    assert drift({"image_id": "ami-arm"}, labels={label_keys.INSTANCE_TYPE: "m6g.large"}) is None


def test_of_several_images_for_a_type_the_first_is_the_one() -> None:
    images = (for_arch("ami-newer", "amd64"), *CLASS.found.images)

    assert drift(node_class=found(images=images)) == "AMIDrift"


@pytest.mark.parametrize("groups", [{"sg-1"}, {"sg-1", "sg-2", "sg-3"}, set()])
def test_a_security_group_too_few_or_too_many_is_drift(groups: set[str]) -> None:
    assert drift(machine={"security_groups": frozenset(groups)}) == "SecurityGroupDrift"


def test_a_subnet_that_is_not_selected_any_more_is_drift() -> None:
    assert drift(machine={"subnet": "subnet-3"}) == "SubnetDrift"


def test_a_reservation_that_is_not_selected_any_more_is_drift_while_the_machine_is_in_it() -> None:
    held = CapacityReservation(id="cr-1", instance_type="m5.large", zone="a", available=1)
    labels = {label_keys.CAPACITY_TYPE: label_keys.RESERVED}
    reserved = {"capacity_type": label_keys.RESERVED, "reservation": "cr-1"}

    assert drift(machine=reserved, labels=labels) == "CapacityReservationDrift"
    assert drift(node_class={"reservations": (held,)}, machine=reserved, labels=labels) is None
    assert drift(machine={"capacity_type": label_keys.ON_DEMAND}, labels=labels) is None


def test_a_placement_group_that_came_went_or_changed_is_drift() -> None:
    inside = {label_keys.PLACEMENT_GROUP_ID: "pg-1"}

    assert (
        drift(node_class=found(placement_group=PlacementGroup(id="pg-1"))) == "PlacementGroupDrift"
    )
    assert drift(labels=inside) == "PlacementGroupDrift"
    assert (
        drift(node_class=found(placement_group=PlacementGroup(id="pg-2")), labels=inside)
        == "PlacementGroupDrift"
    )
    assert drift(node_class=found(placement_group=PlacementGroup(id="pg-1")), labels=inside) is None


@pytest.mark.parametrize(
    ("claim", "node_class"),
    [
        ({"image_id": ""}, {}),
        ({"provider_id": ""}, {}),
        ({"labels": FrozenDict()}, {}),
        ({}, found(images=())),
        ({}, found(images=(for_arch("ami-arm", "arm64"),))),
        ({}, found(subnets=())),
        ({}, found(security_groups=())),
    ],
)
def test_what_is_not_known_is_no_drift(claim: dict[str, Any], node_class: dict[str, Any]) -> None:
    with pytest.raises(DriftUnknown):
        drift(claim, node_class)


def test_what_the_class_says_is_looked_at_before_what_it_selects() -> None:
    old = {"annotations": FrozenDict({HASH: "0", VERSION: "v"}), "image_id": "ami-old"}

    assert drift(old, machine={"subnet": "subnet-3"}) == "NodeClassDrift"
