"""Looking at machines and giving them back: many in a call, and each gets its own answer."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dovetail.aws.instance.instances import described
from dovetail.core.nodeclaim.garbage_collection import YOUNGEST_ORPHAN, Seen, orphans
from dovetail.ports.cloudprovider import CloudError, InstanceNotFound
from tests.aws.buying import bought, claims
from tests.support.moto.door import Fault
from tests.support.moto.process import CLUSTER, AwsProcess
from tests.support.moto.server import MotoAws

GONE = "aws:///eu-west-1a/i-00000000000000000"


def test_many_looks_at_the_same_time_are_one_call_and_what_is_gone_harms_nobody_else(
    moto: MotoAws, process: AwsProcess
) -> None:
    machines = bought(process, claims(10))
    before = moto.door.calls["DescribeInstances"]

    wanted = [*(one.provider_id for one in machines), GONE, machines[0].provider_id]
    outcomes = process.together([process.cloud.get(one) for one in wanted])

    assert moto.door.calls["DescribeInstances"] == before + 1
    found = [getattr(one, "provider_id", None) for one in outcomes]
    assert found == [*wanted[:10], None, wanted[0]]
    assert isinstance(outcomes[10], InstanceNotFound)


def test_many_are_given_back_in_one_call(moto: MotoAws, process: AwsProcess) -> None:
    machines = bought(process, claims(10))

    process.together([process.cloud.delete(one.provider_id) for one in machines])

    assert moto.door.calls["TerminateInstances"] == 1
    assert process.do(process.cloud.list()) == []


def test_one_that_vanished_in_between_does_not_keep_the_others(
    moto: MotoAws, process: AwsProcess
) -> None:
    machines = bought(process, claims(3))
    ids = [one.provider_id.rpartition("/")[2] for one in machines]

    outcomes = process.together(
        [process.machines.terminate(one) for one in (*ids, "i-00000000000000000")]
    )

    assert outcomes[:3] == [None] * 3
    assert isinstance(outcomes[3], InstanceNotFound)
    assert process.do(process.cloud.list()) == []


def test_what_ends_already_is_not_ordered_to_end_again(moto: MotoAws, process: AwsProcess) -> None:
    (machine,) = bought(process, claims(1))
    process.do(process.cloud.delete(machine.provider_id))

    with pytest.raises(InstanceNotFound):
        process.do(process.cloud.delete(machine.provider_id))

    assert moto.door.calls["TerminateInstances"] == 1


def test_machines_of_other_clusters_and_of_nobody_are_not_listed(
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


def test_a_machine_whose_claim_was_deleted_before_it_was_written_down_is_found_as_garbage(
    moto: MotoAws, process: AwsProcess
) -> None:
    wanted = claims(3)
    bought(process, wanted)
    # The process dies here: no claim says which machine is its own; one claim is deleted.
    other = AwsProcess(process.site)

    listed = other.do(other.cloud.list())

    other.stop()
    seen = [
        Seen(provider_id=one.provider_id, claim=one.claim, launched=one.launched) for one in listed
    ]
    later = max(one.launched for one in seen if one.launched) + YOUNGEST_ORPHAN
    assert [one.claim for one in orphans(seen, wanted[1:], later)] == [wanted[0].name]
    assert orphans(seen, wanted, later) == []


def test_tagging_adds_what_is_missing_and_leaves_what_is_there(
    moto: MotoAws, process: AwsProcess
) -> None:
    (machine,) = bought(process, claims(1))
    instance_id = machine.provider_id.rpartition("/")[2]
    process.do(process.machines.tag(instance_id, {"Name": "mine"}))

    process.do(process.machines.tag(instance_id, {"Name": "node-1", "karpenter.sh/nodeclaim": "c"}))
    process.do(process.machines.tag(instance_id, {"Name": "node-1"}))

    tags = process.do(process.machines.find(instance_id)).tags
    assert (tags["Name"], tags["karpenter.sh/nodeclaim"]) == ("mine", "c")
    assert tags["eks:eks-cluster-name"] == CLUSTER
    assert moto.door.calls["CreateTags"] == 2
    assert process.do(process.cloud.get(machine.provider_id)).claim == "c"


def test_an_error_that_stays_reaches_all_who_asked_and_names_the_call(
    moto: MotoAws, process: AwsProcess
) -> None:
    moto.door.script(
        Fault(operation="DescribeInstances", code="UnauthorizedOperation", status=403, times=1)
    )

    outcomes = process.together([process.cloud.get(GONE), process.cloud.get(GONE)])

    for one in outcomes:
        assert isinstance(one, CloudError)
        assert "DescribeInstances: UnauthorizedOperation" in str(one)


def test_a_description_is_read_with_and_without_its_parts() -> None:
    bare = described({"InstanceId": "i-1"})
    spot = described(
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
    assert spot.instance.claim == "claim"
    assert (spot.instance.subnet, spot.instance.security_groups) == ("subnet-1", ("sg-1",))


@pytest.mark.parametrize(
    ("preference", "kind"), [("capacity-reservations-only", "reserved"), ("open", "on-demand")]
)
def test_only_what_was_bought_from_a_reservation_is_reserved(preference: str, kind: str) -> None:
    seen = described(
        {
            "InstanceId": "i-1",
            "CapacityReservationId": "cr-1",
            "CapacityReservationSpecification": {"CapacityReservationPreference": preference},
        }
    )

    assert seen.instance.capacity_type == kind
    assert seen.instance.reservation == ("cr-1" if kind == "reserved" else "")
