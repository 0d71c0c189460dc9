"""Get, list, tag and terminate instances: batched, with a result for each."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dovetail.aws.instance.instances import decode_instance
from dovetail.core.nodeclaim.garbage_collection import (
    MIN_ORPHAN_AGE,
    RunningInstance,
    find_orphaned_instances,
)
from dovetail.ports.cloudprovider import CloudError, InstanceNotFoundError
from tests.support.aws.launches import claims, launched
from tests.support.aws.provider_process import CLUSTER, AwsProcess
from tests.support.moto.middleware import ScriptedError
from tests.support.moto.server import MotoAws

GONE = "aws:///eu-west-1a/i-00000000000000000"


def test_concurrent_gets_share_a_call_and_a_missing_instance_fails_alone(
    moto: MotoAws, process: AwsProcess
) -> None:
    instances = launched(process, claims(10))
    before = moto.middleware.calls["DescribeInstances"]

    wanted = [*(instance.provider_id for instance in instances), GONE, instances[0].provider_id]
    outcomes = process.together([process.cloud.get(entry) for entry in wanted])

    assert moto.middleware.calls["DescribeInstances"] == before + 1
    result = [getattr(result, "provider_id", None) for result in outcomes]
    assert result == [*wanted[:10], None, wanted[0]]
    assert isinstance(outcomes[10], InstanceNotFoundError)


def test_many_instances_terminate_in_one_call(moto: MotoAws, process: AwsProcess) -> None:
    instances = launched(process, claims(10))

    process.together([process.cloud.delete(instance.provider_id) for instance in instances])

    assert moto.middleware.calls["TerminateInstances"] == 1
    assert process.do(process.cloud.list()) == []


def test_a_missing_instance_does_not_prevent_other_terminations(moto: MotoAws, process: AwsProcess) -> None:
    instances = launched(process, claims(3))
    ids = [instance.provider_id.rpartition("/")[2] for instance in instances]

    outcomes = process.together(
        [process.instances.terminate(entry) for entry in (*ids, "i-00000000000000000")]
    )

    assert outcomes[:3] == [None] * 3
    assert isinstance(outcomes[3], InstanceNotFoundError)
    assert process.do(process.cloud.list()) == []


def test_a_terminating_instance_is_not_terminated_again(moto: MotoAws, process: AwsProcess) -> None:
    (instance,) = launched(process, claims(1))
    process.do(process.cloud.delete(instance.provider_id))

    with pytest.raises(InstanceNotFoundError):
        process.do(process.cloud.delete(instance.provider_id))

    assert moto.middleware.calls["TerminateInstances"] == 1


def test_instances_of_other_clusters_and_without_tags_are_not_listed(
    moto: MotoAws, process: AwsProcess
) -> None:
    subnet = process.classes.subnets[0].id
    tags: list[Any] = [
        {"Key": "eks:eks-cluster-name", "Value": "another"},
        {"Key": "karpenter.sh/nodepool", "Value": "default"},
        {"Key": "karpenter.k8s.aws/ec2nodeclass", "Value": "default"},
    ]
    for some in (tags, tags[1:], []):
        process.ec2.run_instances(
            ImageId="ami-12c6146b",
            MinCount=1,
            MaxCount=1,
            SubnetId=subnet,
            TagSpecifications=[{"ResourceType": "instance", "Tags": some}] if some else [],
        )

    assert process.do(process.cloud.list()) == []


def test_an_instance_of_a_deleted_claim_is_listed_for_garbage_collection(
    moto: MotoAws, process: AwsProcess
) -> None:
    wanted = claims(3)
    launched(process, wanted)
    # The process dies here: no claim names its instance; one claim is deleted.
    other = AwsProcess(process.account)

    listed = other.do(other.cloud.list())

    other.stop()
    observed = [
        RunningInstance(provider_id=entry.provider_id, claim=entry.nodeclaim, launched=entry.launch_time)
        for entry in listed
    ]
    later = max(entry.launched for entry in observed if entry.launched) + MIN_ORPHAN_AGE
    assert [instance.claim for instance in find_orphaned_instances(observed, wanted[1:], later)] == [
        wanted[0].name
    ]
    assert find_orphaned_instances(observed, wanted, later) == []


def test_tagging_adds_missing_tags_and_keeps_existing_ones(moto: MotoAws, process: AwsProcess) -> None:
    (instance,) = launched(process, claims(1))
    instance_id = instance.provider_id.rpartition("/")[2]
    process.do(process.instances.tag(instance_id, {"Name": "mine"}))

    process.do(process.instances.tag(instance_id, {"Name": "node-1", "karpenter.sh/nodeclaim": "c"}))
    process.do(process.instances.tag(instance_id, {"Name": "node-1"}))

    tags = process.do(process.instances.get(instance_id)).tags
    assert (tags["Name"], tags["karpenter.sh/nodeclaim"]) == ("mine", "c")
    assert tags["eks:eks-cluster-name"] == CLUSTER
    assert moto.middleware.calls["CreateTags"] == 2
    assert process.do(process.cloud.get(instance.provider_id)).nodeclaim == "c"


def test_a_permanent_error_reaches_all_callers_with_the_operation(moto: MotoAws, process: AwsProcess) -> None:
    moto.middleware.add_error(
        ScriptedError(operation="DescribeInstances", code="UnauthorizedOperation", status=403, times=1)
    )

    outcomes = process.together([process.cloud.get(GONE), process.cloud.get(GONE)])

    for result in outcomes:
        assert isinstance(result, CloudError)
        assert "DescribeInstances: UnauthorizedOperation" in str(result)


def test_an_instance_is_decoded_with_and_without_optional_fields() -> None:
    bare = decode_instance({"InstanceId": "i-1"})
    spot = decode_instance(
        {
            "InstanceId": "i-2",
            "InstanceType": "m5.large",
            "ImageId": "ami-1",
            "SubnetId": "subnet-1",
            "SpotInstanceRequestId": "sir-1",
            "Placement": {"AvailabilityZone": "eu-west-1a"},
            "LaunchTime": datetime(2026, 1, 1, tzinfo=UTC),
            "State": {"Name": "shutting-down"},
            "SecurityGroups": [{"GroupId": "sg-1"}],
            "Tags": [{"Key": "karpenter.sh/nodeclaim", "Value": "claim"}],
        }
    )

    assert (bare.instance.capacity_type, bare.instance.terminating) == ("on-demand", False)
    assert spot.instance.provider_id == "aws:///eu-west-1a/i-2"
    assert (spot.instance.capacity_type, spot.instance.terminating) == ("spot", True)
    assert spot.instance.nodeclaim == "claim"
    assert (spot.instance.subnet_id, spot.instance.security_group_ids) == ("subnet-1", ("sg-1",))


@pytest.mark.parametrize(
    ("preference", "kind"), [("capacity-reservations-only", "reserved"), ("open", "on-demand")]
)
def test_only_targeted_launches_are_reserved(preference: str, kind: str) -> None:
    observed = decode_instance(
        {
            "InstanceId": "i-1",
            "CapacityReservationId": "cr-1",
            "CapacityReservationSpecification": {"CapacityReservationPreference": preference},
        }
    )

    assert observed.instance.capacity_type == kind
    assert observed.instance.capacity_reservation_id == ("cr-1" if kind == "reserved" else "")
