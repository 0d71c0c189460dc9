"""Changes of a file that reach what a running cluster uses: kept, or rejected."""

from collections.abc import Iterator
from ipaddress import IPv4Network
from itertools import pairwise
from typing import Any

import pytest

from dovetail.eks.apply.preflight import AccessModeError, ReplacementError, SubnetError
from dovetail.eks.desired.desired_state import desired_state
from dovetail.eks.desired.kept_subnets import AddressSpaceError, keep_subnets
from dovetail.eks.plan.planner import Action, plan_changes
from tests.support.eks.configs import a_cluster
from tests.support.eks.in_memory_account import InMemoryAccount
from tests.support.moto.cluster_account import TestAccount, an_account


def _network(**fields: Any) -> dict[str, Any]:
    return {"create": {"cidr": "10.0.0.0/16", "zones": 2, **fields}}


@pytest.mark.slow
def test_added_zone_takes_free_space_and_nothing_is_replaced(account: TestAccount) -> None:
    file = a_cluster(vpc=_network(zones=3))
    account.apply(file)
    before = _subnets(account)
    larger = a_cluster(vpc=_network(zones=4))

    plan = account.plan(larger)
    account.apply(larger)

    assert {step.action for step in plan.steps} <= {Action.CREATE, Action.UPDATE}
    after = _subnets(account)
    assert before.items() <= after.items()
    assert len(after) == len(before) + 2
    assert account.plan(larger).steps == ()
    assert account.destroy(larger) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"vpc": _network(cidr="10.1.0.0/16")},
            "vpc.create.cidr: the VPC of the running cluster has 10.0.0.0/16; EKS cannot change its VPC",
        ),
        (
            {"vpc": _network(zones=["us-east-1a", "us-east-1c"])},
            "vpc.create.zones: the subnet in us-east-1b is in use by the cluster and cannot be removed",
        ),
        (
            {"vpc": _network(privateSubnets=["10.0.0.0/20", "10.0.16.0/20"])},
            "vpc.create.privateSubnets: the subnet in us-east-1a has 10.0.0.0/18 and is in use",
        ),
        (
            {"iam": {"prefix": "other"}},
            "iam.prefix, iam.path: the running cluster has the role arn:aws:iam::123456789012:role/dev-us",
        ),
        (
            {"iam": {"path": "/platform/"}},
            "iam.path: IAM role dev-us-east-1-node has the path / and is in use",
        ),
    ],
)
def test_change_of_what_the_cluster_uses_is_rejected(
    account_with_cluster: TestAccount, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ReplacementError) as raised:
        account_with_cluster.plan(a_cluster(**{"vpc": _network(), **fields}))

    assert message in str(raised.value)
    assert "nothing was changed" in str(raised.value)


def test_access_entries_cannot_change_back_to_aws_auth(account_with_cluster: TestAccount) -> None:
    with pytest.raises(AccessModeError, match="EKS cannot change back to aws-auth; set entries"):
        account_with_cluster.plan(a_cluster(vpc=_network(), access={"mode": "aws-auth"}))


@pytest.fixture(scope="module")
def account_with_cluster() -> Iterator[TestAccount]:
    with an_account() as account:
        account.apply(a_cluster(vpc=_network()))
        yield account


@pytest.mark.slow
def test_failed_cluster_is_created_again_with_everything_in_it(account: TestAccount) -> None:
    file = a_cluster(vpc=_network(), access={"admins": ["arn:aws:iam::123456789012:role/ops"]})
    account.apply(file)
    members = {kind: set(names) for kind, names in account.eks.parts["dev"].items()}
    account.eks.failed.add("dev")
    account.eks.clusters["dev"]["status"] = "FAILED"

    account.apply(file)

    for kind in ("addons", "access-entries", "node-groups"):
        assert set(account.eks.parts["dev"][kind]) == members[kind]
    assert len(account.eks.parts["dev"]["pod-identity-associations"]) == 1
    assert account.plan(file).steps == ()


def test_discovery_tag_of_another_cluster_is_not_overwritten(account: TestAccount) -> None:
    file = account.prepared("existing-vpc")
    vpc = file.vpc.existing if file.vpc else None
    assert vpc is not None
    subnet = vpc.subnets.ids[0]
    account.client("ec2").create_tags(
        Resources=[subnet], Tags=[{"Key": "karpenter.sh/discovery", "Value": "theirs"}]
    )

    with pytest.raises(SubnetError, match=f"{subnet} has the tag karpenter.sh/discovery=theirs.*ids"):
        account.plan(file)


@pytest.mark.slow
def test_role_of_running_nodes_is_kept_until_they_are_replaced(account: TestAccount) -> None:
    role = "dev-us-east-1-node"
    account.apply(a_cluster(vpc=_network()))
    instance = _run_node(account, role)
    shared = a_cluster(vpc=_network(), iam={"nodeRole": {"use": "home"}})

    first = account.plan(shared)
    account.apply(shared)

    message = f"IAM role {role} is kept while 1 instance uses it; apply again once they are replaced"
    assert message in first.kept
    assert account.client("iam").get_role(RoleName=role)
    entries = account.eks.parts["dev"]["access-entries"]
    assert f"arn:aws:iam::123456789012:role/{role}" in entries
    account.client("ec2").terminate_instances(InstanceIds=[instance])
    account.apply(shared)
    assert f"arn:aws:iam::123456789012:role/{role}" not in entries
    assert account.plan(shared).steps == ()


def _run_node(account: TestAccount, role: str) -> str:
    """Run an instance as the controller does, and return its id."""
    iam, ec2 = account.client("iam"), account.client("ec2")
    iam.create_instance_profile(InstanceProfileName="nodes", Path="/karpenter/us-east-1/dev/x/")
    iam.add_role_to_instance_profile(InstanceProfileName="nodes", RoleName=role)
    image = ec2.describe_images()["Images"][0]["ImageId"]
    tags = [{"Key": "eks:eks-cluster-name", "Value": "dev"}, {"Key": "karpenter.sh/nodepool", "Value": "p"}]
    started = ec2.run_instances(
        ImageId=image,
        MinCount=1,
        MaxCount=1,
        IamInstanceProfile={"Name": "nodes"},
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )
    return str(started["Instances"][0]["InstanceId"])


@pytest.mark.slow
def test_log_group_is_deleted_when_the_file_has_no_log_types(account: TestAccount) -> None:
    account.apply(a_cluster(vpc=_network(), logging={"types": ["audit"]}))
    without = a_cluster(vpc=_network())

    account.apply(without)

    assert account.client("logs").describe_log_groups()["logGroups"] == []
    assert account.plan(without).steps == ()


@pytest.mark.parametrize("zones", [2, 3, 4])
@pytest.mark.parametrize("cidr", ["10.0.0.0/16", "10.0.0.0/20", "10.0.0.0/22"])
def test_zones_are_added_one_by_one_without_overlap(zones: int, cidr: str) -> None:
    first = a_cluster(vpc=_network(cidr=cidr, zones=zones))
    second = a_cluster(vpc=_network(cidr=cidr, zones=zones + 1))
    account = InMemoryAccount(desired_state(second))
    account.run(plan_changes(desired_state(first), account.observed()))
    before = _blocks(desired_state(first))

    kept = keep_subnets(desired_state(second), account.observed(), second)

    blocks = _blocks(kept)
    networks = sorted(IPv4Network(block) for block in blocks.values())
    assert before.items() <= blocks.items()
    assert len(networks) == 2 * (zones + 1)
    assert not any(first.overlaps(second) for first, second in pairwise(networks))
    assert all(network.subnet_of(IPv4Network(cidr)) and network.prefixlen <= 28 for network in networks)


def test_zone_without_free_space_is_rejected() -> None:
    blocks = ["10.0.0.0/18", "10.0.64.0/18"]
    public = ["10.0.128.0/18", "10.0.192.0/18"]
    first = a_cluster(vpc=_network(privateSubnets=blocks, publicSubnets=public))
    second = a_cluster(vpc=_network(zones=3))
    account = InMemoryAccount(desired_state(first))
    account.run(plan_changes(desired_state(first), account.observed()))

    with pytest.raises(AddressSpaceError, match="no free block for a subnet in us-east-1c; keep the zones"):
        keep_subnets(desired_state(second), account.observed(), second)


def _blocks(resources: Any) -> dict[str, str]:
    return {
        resource.address: str(resource.properties["CidrBlock"])
        for resource in resources
        if resource.kind == "subnet"
    }


def _subnets(account: TestAccount) -> dict[str, str]:
    owned = [{"Name": "tag:dovetail.sh/cluster", "Values": ["dev"]}]
    subnets = account.client("ec2").describe_subnets(Filters=owned)["Subnets"]
    return {subnet["SubnetId"]: subnet["CidrBlock"] for subnet in subnets}
