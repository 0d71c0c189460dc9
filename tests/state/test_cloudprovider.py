"""Logic that the cloud providers share."""

import msgspec
import pytest

from dovetail.core.instancetypes.launch_choices import NoLaunchChoices
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.ports.cloudprovider import CreateError, InsufficientCapacityError, NodeClassNotReadyError
from dovetail.state.cloudprovider import (
    LaunchChoiceCache,
    claim_error,
    launch_annotations,
    launch_failure_reason,
    no_capacity_error,
    require_ready,
)

CLAIM = NodeClaim(name="default-1")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted: no", "SpotSLRCreationFailed"),
        ("UnauthorizedOperation: You are not", "Unauthorized"),
        ("AuthFailure: Not authorized for images: [ami-1]", "AMIAuthorizationFailure"),
        (
            "InvalidParameter: Security group sg-1 and subnet s-1 belong to different networks",
            "SecurityGroupSubnetVPCMismatch",
        ),
        (
            "InvalidParameterValue: Value (x) for parameter is invalid. Invalid IAM Instance Profile name",
            "InstanceProfileNameInvalid",
        ),
        ("InvalidLaunchTemplateName.NotFoundException: gone", "LaunchTemplateNotFound"),
        ("InvalidUserData.Malformed: User data is limited to 16384", "UserDataSizeLimitExceeded"),
        ("InvalidAMIID.Malformed: ami", "InvalidAMIID"),
        ("InvalidAMIID.NotFound: ami", "AMINotFound"),
        ("RequestLimitExceeded: slow", "RequestLimitExceeded"),
        ("InternalError: oh", "InternalError"),
        ("MaxFleetCountExceeded: many", "FleetQuotaExceeded"),
        ("PendingVerification: wait", "AccountPendingVerification"),
        ("MaxSpotInstanceCountExceeded: many", "SpotQuotaExceeded"),
        ("VcpuLimitExceeded: many", "VCPULimitExceeded"),
        ("InsufficientFreeAddressesInSubnet: full", "InsufficientFreeAddressesInSubnet"),
        ("SomethingElse: odd", "LaunchFailed"),
    ],
)
def test_a_failed_launch_has_the_reason_of_karpenter(message: str, reason: str) -> None:
    assert launch_failure_reason(message) == reason


@pytest.mark.parametrize(
    ("node_class", "error"),
    [
        (None, InsufficientCapacityError),
        (EC2NodeClass(deleting=True), InsufficientCapacityError),
        (EC2NodeClass(ready=False), NodeClassNotReadyError),
    ],
)
def test_a_node_class_that_is_not_ready_launches_nothing(
    node_class: EC2NodeClass | None, error: type[Exception]
) -> None:
    with pytest.raises(error, match="EC2NodeClass default"):
        require_ready("default", node_class)


def test_a_ready_node_class_is_returned() -> None:
    node_class = EC2NodeClass()

    assert require_ready("default", node_class) is node_class


def test_an_error_that_names_its_claim_keeps_type_and_reason() -> None:
    error = claim_error(CLAIM, CreateError("AMINotFound", "no ami-1"))

    assert isinstance(error, CreateError)
    assert error.reason == "AMINotFound"
    assert str(error) == "nodeclaim default-1: no ami-1"


def test_the_capacity_error_lists_three_offerings_and_counts_the_rest() -> None:
    offerings = [f"m5.large/eu-west-1{zone}" for zone in "abcde"]

    error = str(no_capacity_error(CLAIM, offerings, NoLaunchChoices("none")))

    assert "no capacity for m5.large/eu-west-1a" in error
    assert "m5.large/eu-west-1c and 2 more; " in error
    assert "eu-west-1d" not in error


def test_without_a_failed_offering_the_error_is_why_there_is_no_choice() -> None:
    error = str(no_capacity_error(CLAIM, [], NoLaunchChoices("no type fits")))

    assert error == "nodeclaim default-1: no type fits"


def test_a_launched_claim_has_the_hash_of_its_node_class_and_the_profile() -> None:
    hashes = {label_keys.EC2_NODE_CLASS_HASH: "1", label_keys.EC2_NODE_CLASS_HASH_VERSION: "v1"}
    node_class = EC2NodeClass(annotations=FrozenDict({**hashes, "team": "a"}))

    assert launch_annotations(node_class, profile="nodes") == {**hashes, label_keys.INSTANCE_PROFILE: "nodes"}
    assert launch_annotations(None, profile="") == {}


def test_relaxed_min_values_are_another_entry_of_the_choice_cache() -> None:
    cache = LaunchChoiceCache()
    strict = NodeClaim(name="a", requirements=(RequirementSpec(label_keys.ARCH, Operator.IN, ("arm64",)),))
    relaxed = msgspec.structs.replace(strict, annotations=FrozenDict({label_keys.MIN_VALUES_RELAXED: "true"}))

    first = cache.find(strict, ())

    assert cache.find(strict, ()) is first
    assert cache.find(relaxed, ()) is not first
