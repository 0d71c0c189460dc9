"""Instance types of the dry run: launchable with the class, another one if EC2 rejects one."""

from collections.abc import Callable
from typing import Any

import pytest

from dovetail.core.instancetypes.build import build_instance_types
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodepool import NodePool, NodeTemplate
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.ports.cloudprovider import NodeClassStatus
from dovetail.state.instancetypes.provider import InstanceTypeProvider
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings
from tests.aws.nodeclass.classes import a_class, annotated, message, reasons
from tests.core.instancetypes.builders import BOOK, ec2_type, region_offering
from tests.support.aws.nodeclass_account import Account, NodeClassProcess
from tests.support.moto.behaviour import Behaviour

EFA_INTERFACES = [
    {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
    {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
]
Start = Callable[..., NodeClassProcess]


@pytest.fixture
def start(process: NodeClassProcess, processes: Start) -> Start:
    """Start a process with an open NodePool, in a region that offers some types."""

    def start(*names: str) -> NodeClassProcess:
        provider = InstanceTypeProvider(
            tuple(ec2_type(name) for name in names),
            region=region_offering(names),
            prices=BOOK,
            unavailable=UnavailableOfferings(),
        )
        pools = [NodePool(name="default")]
        return processes(pools=lambda _: pools, types=provider.launchable_types)

    return start


@pytest.mark.parametrize(
    ("spec", "incompatible", "compatible"),
    [
        ({"placementGroupSelector": {"name": "close"}}, "t3.medium", "z1d.large"),
        ({"cpuOptions": {"nestedVirtualization": "enabled"}}, "i3en.xlarge", "m8i.large"),
        ({"networkInterfaces": EFA_INTERFACES}, "c5.large", "c6in.32xlarge"),
        ({"connectionTracking": {"udpTimeout": "30s"}}, "m4.large", "m5.large"),
        ({"connectionTracking": {"udpTimeout": "30s"}}, "c5.metal", "m5.large"),
    ],
)
def test_a_type_that_cannot_launch_with_the_class_is_not_tried(
    account: Account, start: Start, spec: dict[str, Any], incompatible: str, compatible: str
) -> None:
    account.placement_group("close", "pg-1")
    account.reject_types(incompatible)

    result = start(incompatible, compatible).resolve(a_class(**spec))

    assert not result.false_conditions
    assert account.dry_run_types == [compatible]


@pytest.mark.parametrize(
    ("spec", "unsupported", "supported"),
    [
        ({"placementGroupSelector": {"name": "close"}}, "t3.medium", "z1d.large"),
        ({"cpuOptions": {"nestedVirtualization": "enabled"}}, "i3en.xlarge", "m8i.large"),
        ({"networkInterfaces": EFA_INTERFACES}, "c5.large", "c6in.32xlarge"),
        ({"connectionTracking": {"udpTimeout": "30s"}}, "m4.large", "m5.large"),
    ],
)
def test_a_type_that_ec2_itself_rejects_does_not_keep_the_class_from_ready(
    account: Account,
    process: NodeClassProcess,
    processes: Start,
    spec: dict[str, Any],
    unsupported: str,
    supported: str,
) -> None:
    account.placement_group("close", "pg-1")
    account.reject_types()  # It records the types only.
    names = (unsupported, supported)
    types = build_instance_types(
        [ec2_type(name) for name in names],
        region=region_offering(names),
        node_class=EC2NodeClass(),
        prices=BOOK,
    )
    only = RequirementSpec("node.kubernetes.io/instance-type", Operator.IN, (unsupported,))

    def resolve(*requirements: RequirementSpec) -> NodeClassStatus:
        template = NodeTemplate(requirements=requirements)
        pool = NodePool(name="default", template=template)
        return processes(pools=lambda _: [pool], types=lambda _: types).resolve(a_class(**spec))

    assert reasons(resolve(only)) == {"ValidationSucceeded": "RunInstancesFailed"}
    assert set(account.dry_run_types) == {unsupported}
    assert not resolve().false_conditions


def test_a_disk_smaller_than_the_image_is_reported(account: Account, start: Start) -> None:
    account.image(
        "ami-mine",
        name="mine",
        owner_alias=None,
        owner_id="123456789012",
        root_gib=20,
        root_device_name="/dev/xvda",
    )
    disk = {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "10Gi"}}

    result = start("m5.large").resolve(a_class(blockDeviceMappings=[disk]))

    assert reasons(result) == {"ValidationSucceeded": "RunInstancesFailed"}
    assert "smaller than snapshot" in message(result, "ValidationSucceeded")


def test_a_new_profile_that_ec2_does_not_know_yet_delays_the_class_only(
    account: Account, start: Start
) -> None:
    account.moto.behave(Behaviour(profile_delay=3600))
    process = start("m5.large")

    result = process.resolve(a_class())
    assert not result.false_conditions
    assert "does not see the new profile yet" in message(result, "ValidationSucceeded")
    account.moto.behave(Behaviour())

    assert not process.resolve(a_class()).false_conditions


def test_another_family_is_tried_if_ec2_rejects_a_type(account: Account, start: Start) -> None:
    account.reject_types("c5.large", "c5.xlarge")

    result = start("c5.large", "c5.xlarge", "m5.large").resolve(a_class())

    assert not result.false_conditions
    assert list(dict.fromkeys(account.dry_run_types)) == ["c5.large", "m5.large"]


def test_a_class_whose_parameters_no_type_supports_is_not_ready(account: Account, start: Start) -> None:
    account.reject_types("c5.large", "m5.large")
    process = start("c5.large", "m5.large")

    result = process.resolve(a_class())
    asked = len(account.dry_run_types)
    process.resolve(a_class())

    assert reasons(result) == {"ValidationSucceeded": "RunInstancesFailed"}
    assert "c5.large does not support the parameters" in message(result, "ValidationSucceeded")
    assert len(account.dry_run_types) == asked


def test_an_accepted_type_is_not_tried_again_for_half_an_hour(account: Account, start: Start) -> None:
    account.reject_types("c5.large")
    process = start("c5.large", "m5.large")

    process.resolve(a_class())
    asked = len(account.dry_run_types)
    process.resolve(a_class())

    assert len(account.dry_run_types) == asked
    assert not process.resolve(annotated(a_class(), please="again")).false_conditions
    assert len(account.dry_run_types) > asked


def test_a_denied_permission_is_not_tried_with_another_type(account: Account, start: Start) -> None:
    account.fail("CreateFleet")

    result = start("c5.large", "m5.large").resolve(a_class())

    assert reasons(result) == {"ValidationSucceeded": "CreateFleetAuthCheckFailed"}
    assert account.calls("CreateFleet") == 1
