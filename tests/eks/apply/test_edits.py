"""Edits of a file that is applied: each changes exactly what it says, or is refused."""

from typing import Any

import pytest

from dovetail.eks.apply.preflight import ReplacementError
from tests.support.eks.configs import a_cluster
from tests.support.memory_aws.account import MemoryAccount
from tests.support.memory_aws.landscape import create_landscape

NETWORK = {"create": {"cidr": "10.0.0.0/16", "zones": 2}}
ALICE = "arn:aws:iam::123456789012:user/alice"
GROUP = {"name": "extra"}
POLICY = "arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy"


@pytest.fixture
def memory_account() -> MemoryAccount:
    return MemoryAccount()


def apply_both(account: MemoryAccount, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Apply two files, and return the ids of the steps of the second."""
    account.apply(a_cluster(**{"vpc": NETWORK, **before}))
    config = a_cluster(**{"vpc": NETWORK, **after})
    result = account.apply(config)
    assert account.plan(config).steps == ()
    return [step.id for step in result.done]


def test_group_of_vpc_endpoints_is_deleted_after_them(memory_account: MemoryAccount) -> None:
    steps = apply_both(
        memory_account, {"vpc": {"create": {"zones": 2, "endpoints": ["sts"]}}}, {"vpc": NETWORK}
    )

    assert steps.index("delete vpc-endpoint/sts") < steps.index("delete security-group/dev-endpoints")


def test_value_of_a_taint_can_change(memory_account: MemoryAccount) -> None:
    apply_both(
        memory_account,
        {"nodeGroups": [{**GROUP, "taints": [{"key": "team", "value": "a"}]}]},
        {"nodeGroups": [{**GROUP, "taints": [{"key": "team", "value": "b"}]}]},
    )

    taints = memory_account.eks.members["dev"]["nodegroup"]["extra"]["taints"]
    assert taints == [{"key": "team", "value": "b", "effect": "NO_SCHEDULE"}]


def test_user_who_leaves_the_admin_group_loses_the_admin_policy(memory_account: MemoryAccount) -> None:
    apply_both(
        memory_account,
        {"access": {"users": [{"userArn": ALICE, "groups": ["system:masters"]}]}},
        {"access": {"users": [{"userArn": ALICE, "groups": ["viewers"]}]}},
    )

    assert memory_account.eks.members["dev"]["entry"][ALICE]["policies"] == {}


def test_launch_template_for_a_group_without_one_is_refused(memory_account: MemoryAccount) -> None:
    memory_account.apply(a_cluster(vpc=NETWORK, nodeGroups=[{**GROUP, "launchTemplate": False}]))

    with pytest.raises(ReplacementError, match="extra was created without a launch template, and EKS cannot"):
        memory_account.plan(a_cluster(vpc=NETWORK, nodeGroups=[GROUP]))


def test_disk_of_a_group_without_launch_template_replaces_the_group(memory_account: MemoryAccount) -> None:
    group = {**GROUP, "launchTemplate": False}
    steps = apply_both(memory_account, {"nodeGroups": [group]}, {"nodeGroups": [{**group, "diskGib": 50}]})

    assert steps == ["delete eks-node-group/extra", "create eks-node-group/extra"]
    assert memory_account.eks.members["dev"]["nodegroup"]["extra"]["diskSize"] == 50


def test_refused_cidr_is_reported_without_its_consequences(memory_account: MemoryAccount) -> None:
    memory_account.apply(a_cluster(vpc=NETWORK))

    with pytest.raises(ReplacementError) as raised:
        memory_account.plan(a_cluster(vpc={"create": {"cidr": "10.8.0.0/16", "zones": 2}}))

    assert str(raised.value).splitlines() == [
        "vpc.create.cidr: the VPC of the running cluster has 10.0.0.0/16; EKS cannot change its VPC",
        "set it back, or destroy the cluster and create it again; nothing was changed",
    ]


def test_ssm_for_nodes_with_their_own_role_is_settled_after_one_apply(memory_account: MemoryAccount) -> None:
    names = create_landscape(memory_account.client, with_cluster=True)
    subnets = {"ids": [names["$subnet-a"], names["$subnet-b"]]}
    config = a_cluster(home={"kind": "existing", "ssm": True}, vpc={"existing": {"subnets": subnets}})
    memory_account.apply(config)

    assert memory_account.plan(config).steps == ()


def test_namespace_of_an_earlier_file_is_deleted_from_a_cluster_that_stays(
    memory_account: MemoryAccount,
) -> None:
    names = create_landscape(memory_account.client, with_cluster=True)
    subnets = {"ids": [names["$subnet-a"], names["$subnet-b"]]}
    fields = {"home": "existing", "vpc": {"existing": {"subnets": subnets}}}
    account = {"name": "reports", "namespace": "web", "policies": [POLICY]}
    memory_account.apply(a_cluster(**fields, serviceAccounts=[account]))
    config = a_cluster(**fields)
    memory_account.apply(config)

    assert memory_account.destroy(config) == []
    assert ("v1", "namespaces", "", "web") not in memory_account.kube.clusters["dev"]


def test_role_that_leaves_the_console_loses_its_policy(memory_account: MemoryAccount) -> None:
    create_landscape(memory_account.client, with_cluster=False)
    apply_both(
        memory_account,
        {"access": {"consoleRoles": ["Developers", "Viewers"]}},
        {"access": {"consoleRoles": ["Viewers"]}},
    )

    assert memory_account.iam.attached["Developers"] == []


def test_discovery_tags_go_with_the_subnets_that_the_file_drops(memory_account: MemoryAccount) -> None:
    names = create_landscape(memory_account.client, with_cluster=False)
    subnets = [names[f"$subnet-{letter}"] for letter in "abc"]
    ec2, tag = memory_account.client("ec2"), {"Key": "karpenter.sh/discovery", "Value": "dev"}
    ec2.create_tags(Resources=subnets[:1], Tags=[tag])

    def tagged() -> list[str]:
        filters = [{"Name": "key", "Values": [tag["Key"]]}, {"Name": "resource-id", "Values": subnets}]
        return [each["ResourceId"] for each in ec2.describe_tags(Filters=filters)["Tags"]]

    def network(ids: list[str], discovery: str) -> dict[str, Any]:
        return {"vpc": {"existing": {"subnets": {"ids": ids}, "discovery": discovery}}}

    apply_both(memory_account, network(subnets, "tags"), network(subnets[:2], "tags"))
    assert tagged() == subnets[:2]

    apply_both(memory_account, network(subnets[:2], "tags"), network(subnets[:2], "ids"))
    # Its tag is of its owner.
    assert tagged() == subnets[:1]
