"""Drift from a node class: 28–35 of the AWS checklist."""

from typing import Any

import msgspec
import pytest

from dovetail.core.nodeclass.drift import DriftUnknownError, InstanceFacts, get_nodeclass_drift_reason
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation, EC2NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import Ami, PlacementGroup, ResolvedResources, Subnet
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.requirements import Operator, Requirement, Requirements, RequirementSpec
from dovetail.model.kube.resources import NO_RESOURCES

HASH, VERSION = label_keys.EC2_NODE_CLASS_HASH, label_keys.EC2_NODE_CLASS_HASH_VERSION


def for_arch(ami_id: str, arch: str) -> Ami:
    requirement = RequirementSpec(label_keys.ARCH, Operator.IN, (arch,))
    return Ami(id=ami_id, requirements=(requirement,))


def a_type(name: str, arch: str) -> InstanceType:
    return InstanceType(
        name=name,
        requirements=Requirements.from_requirements([Requirement.one_of(label_keys.ARCH, arch)]),
        capacity=NO_RESOURCES,
        overhead=NO_RESOURCES,
        offerings=(),
    )


TYPES = {"m5.large": a_type("m5.large", "amd64"), "m6g.large": a_type("m6g.large", "arm64")}
CLASS = EC2NodeClass(
    annotations=FrozenDict({HASH: "1", VERSION: "v"}),
    resolved=ResolvedResources(
        subnets=(Subnet(id="subnet-1"), Subnet(id="subnet-2")),
        security_group_ids=("sg-1", "sg-2"),
        amis=(for_arch("ami-new", "amd64"), for_arch("ami-arm", "arm64")),
    ),
)
CLAIM = NodeClaim(
    name="a",
    annotations=FrozenDict({HASH: "1", VERSION: "v"}),
    labels=FrozenDict({label_keys.INSTANCE_TYPE: "m5.large"}),
    image_id="ami-new",
    provider_id="aws:///a/i-1",
)
INSTANCE = InstanceFacts(subnet="subnet-1", security_groups=frozenset({"sg-1", "sg-2"}))


def drift(
    claim: dict[str, Any] | None = None,
    node_class: dict[str, Any] | None = None,
    instance: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
) -> str | None:
    changed = {"labels": CLAIM.labels.with_items(labels or {}), **(claim or {})}
    return get_nodeclass_drift_reason(
        msgspec.structs.replace(CLAIM, **changed),
        msgspec.structs.replace(CLASS, **(node_class or {})),
        msgspec.structs.replace(INSTANCE, **(instance or {})),
        TYPES,
    )


def resolved(**fields: Any) -> dict[str, Any]:
    return {"resolved": msgspec.structs.replace(CLASS.resolved, **fields)}


def test_instance_as_its_node_class_would_launch_it_has_not_drifted() -> None:
    assert drift() is None


def test_different_hash_of_the_same_version_is_drift() -> None:
    assert drift({"annotations": FrozenDict({HASH: "0", VERSION: "v"})}) == "NodeClassDrift"


@pytest.mark.parametrize("annotations", [{}, {HASH: "0"}, {VERSION: "v"}, {HASH: "0", VERSION: "v6"}])
def test_missing_hash_or_other_hash_version_is_no_drift(annotations: dict[str, str]) -> None:
    assert drift({"annotations": FrozenDict(annotations)}) is None
    assert drift(node_class={"annotations": FrozenDict(annotations)}) is None


def test_ami_that_is_no_longer_selected_is_drift() -> None:
    assert drift({"image_id": "ami-old"}) == "AMIDrift"
    assert drift({"image_id": "ami-arm"}) == "AMIDrift"
    assert drift({"image_id": "ami-arm"}, labels={label_keys.INSTANCE_TYPE: "m6g.large"}) is None


def test_first_matching_ami_is_selected() -> None:
    images = (for_arch("ami-newer", "amd64"), *CLASS.resolved.amis)

    assert drift(node_class=resolved(amis=images)) == "AMIDrift"


@pytest.mark.parametrize("groups", [{"sg-1"}, {"sg-1", "sg-2", "sg-3"}, set()])
def test_missing_or_additional_security_group_is_drift(groups: set[str]) -> None:
    assert drift(instance={"security_groups": frozenset(groups)}) == "SecurityGroupDrift"


def test_subnet_that_is_no_longer_selected_is_drift() -> None:
    assert drift(instance={"subnet": "subnet-3"}) == "SubnetDrift"


def test_unselected_reservation_is_drift_while_the_instance_is_in_it() -> None:
    held = CapacityReservation(id="cr-1", instance_type="m5.large", zone="a", available_count=1)
    labels = {label_keys.CAPACITY_TYPE: label_keys.RESERVED}
    reserved = {"capacity_type": label_keys.RESERVED, "reservation": "cr-1"}

    assert drift(instance=reserved, labels=labels) == "CapacityReservationDrift"
    assert drift(node_class={"capacity_reservations": (held,)}, instance=reserved, labels=labels) is None
    assert drift(instance={"capacity_type": label_keys.ON_DEMAND}, labels=labels) is None


def test_added_removed_or_changed_placement_group_is_drift() -> None:
    inside = {label_keys.PLACEMENT_GROUP_ID: "pg-1"}

    assert drift(node_class=resolved(placement_group=PlacementGroup(id="pg-1"))) == "PlacementGroupDrift"
    assert drift(labels=inside) == "PlacementGroupDrift"
    assert (
        drift(node_class=resolved(placement_group=PlacementGroup(id="pg-2")), labels=inside)
        == "PlacementGroupDrift"
    )
    assert drift(node_class=resolved(placement_group=PlacementGroup(id="pg-1")), labels=inside) is None


@pytest.mark.parametrize(
    ("claim", "node_class"),
    [
        ({"image_id": ""}, {}),
        ({"provider_id": ""}, {}),
        ({"labels": FrozenDict()}, {}),
        ({}, resolved(amis=())),
        ({}, resolved(amis=(for_arch("ami-arm", "arm64"),))),
        ({}, resolved(subnets=())),
        ({}, resolved(security_group_ids=())),
    ],
)
def test_unknown_values_raise_drift_unknown(claim: dict[str, Any], node_class: dict[str, Any]) -> None:
    with pytest.raises(DriftUnknownError):
        drift(claim, node_class)


def test_hash_is_compared_before_resolved_resources() -> None:
    old = {"annotations": FrozenDict({HASH: "0", VERSION: "v"}), "image_id": "ami-old"}

    assert drift(old, instance={"subnet": "subnet-3"}) == "NodeClassDrift"
