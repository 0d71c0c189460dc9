"""Ownership: resources of others with the names of ours."""

import json
from typing import Any

import pytest

from dovetail.eks.apply.ownership import OwnershipError
from dovetail.eks.plan.planner import Action
from dovetail.eks.plan.resource_kinds import GLOBAL_KINDS
from dovetail.eks.resources.property_names import tag_list
from dovetail.ports.api_resources import NODE_POOLS
from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount

NETWORK = {"create": {"cidr": "10.0.0.0/16", "zones": 2}}
CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def _create_role(account: TestAccount) -> None:
    account.client("iam").create_role(RoleName="dev-us-east-1-node", AssumeRolePolicyDocument="{}")


def _create_profile(account: TestAccount) -> None:
    account.client("iam").create_instance_profile(InstanceProfileName="dev-us-east-1-node")


def _create_queue(account: TestAccount) -> None:
    account.client("sqs").create_queue(QueueName="dev")


def _create_rule(account: TestAccount) -> None:
    pattern = json.dumps({"source": ["aws.health"]})
    account.client("events").put_rule(Name="dev-health", EventPattern=pattern)


def _create_template(account: TestAccount) -> None:
    account.client("ec2").create_launch_template(
        LaunchTemplateName="dev-controller", LaunchTemplateData={"InstanceType": "m5.large"}
    )


def _create_log_group(account: TestAccount) -> None:
    account.client("logs").create_log_group(logGroupName="/aws/eks/dev/cluster")


def _create_running_cluster(account: TestAccount) -> None:
    ec2 = account.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.7.0.0/24")["Subnet"]["SubnetId"]
    account.client("eks").create_cluster(
        name="dev",
        version="1.33",
        roleArn="arn:aws:iam::123456789012:role/another",
        resourcesVpcConfig={"subnetIds": [subnet]},
    )


@pytest.mark.parametrize(
    ("create", "name"),
    [
        (_create_role, "IAM role dev-us-east-1-node"),
        (_create_profile, "instance profile dev-us-east-1-node"),
        (_create_queue, "SQS queue dev"),
        (_create_rule, "EventBridge rule dev-health"),
        (_create_template, "launch template dev-controller"),
        (_create_log_group, "log group /aws/eks/dev/cluster"),
        (_create_running_cluster, "EKS cluster dev"),
    ],
)
def test_unowned_resource_with_our_name_is_rejected_and_not_changed(
    account: TestAccount, create: Any, name: str
) -> None:
    config = a_cluster(vpc=NETWORK, iam={"nodeRole": {"instanceProfile": True}}, logging={"types": ["audit"]})
    create(account)
    account.moto.middleware.reset()

    with pytest.raises(OwnershipError, match=f"{name} exists and was not created for this cluster"):
        account.plan(config)
    with pytest.raises(OwnershipError, match="nothing was changed"):
        account.apply(config)

    read_prefixes = ("Describe", "Get", "List", "GET ")
    assert [call for call in account.moto.middleware.calls if not call.startswith(read_prefixes)] == []


def test_all_unowned_resources_are_reported_at_once(account: TestAccount) -> None:
    _create_role(account)
    _create_queue(account)

    with pytest.raises(OwnershipError) as raised:
        account.plan(a_cluster(vpc=NETWORK))

    assert "IAM role dev-us-east-1-node" in str(raised.value)
    assert "SQS queue dev" in str(raised.value)


def test_destroy_keeps_unowned_resources_with_our_name(account: TestAccount) -> None:
    _create_role(account)
    _create_queue(account)
    queue = account.client("sqs").get_queue_url(QueueName="dev")["QueueUrl"]
    statement = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}
    foreign = json.dumps({"Version": "2012-10-17", "Statement": [statement], "Id": "theirs"})
    account.client("sqs").set_queue_attributes(QueueUrl=queue, Attributes={"Policy": foreign})

    leftovers = account.destroy(a_cluster(vpc=NETWORK))

    assert leftovers == []
    assert account.client("iam").get_role(RoleName="dev-us-east-1-node")
    response = account.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["Policy"])
    assert json.loads(response["Attributes"]["Policy"])["Id"] == "theirs"


def test_resource_with_the_ownership_tag_is_adopted(account: TestAccount) -> None:
    config = a_cluster(vpc=NETWORK)
    _create_role(account)
    tags = {"dovetail.sh/cluster": "dev", "dovetail.sh/region": "us-east-1"}
    account.client("iam").tag_role(RoleName="dev-us-east-1-node", Tags=tag_list(tags))

    account.apply(config)

    assert account.plan(config).steps == ()


def test_resource_of_another_cluster_is_rejected_with_its_name(account: TestAccount) -> None:
    _create_role(account)
    tag = {"Key": "dovetail.sh/cluster", "Value": "staging"}
    account.client("iam").tag_role(RoleName="dev-us-east-1-node", Tags=[tag])

    with pytest.raises(OwnershipError, match="IAM role dev-us-east-1-node belongs to cluster staging"):
        account.plan(a_cluster(vpc=NETWORK))


def test_unowned_security_group_in_an_existing_vpc_is_rejected(account: TestAccount) -> None:
    config = account.prepared("existing-vpc")
    existing = config.vpc.existing if config.vpc else None
    account.client("ec2").create_security_group(
        GroupName="dev-eks-cluster-node", Description="theirs", VpcId=existing.id if existing else ""
    )

    with pytest.raises(OwnershipError, match="security group dev-eks-cluster-node exists"):
        account.plan(config)


def test_unowned_nodepool_in_an_existing_cluster_is_rejected(account: TestAccount) -> None:
    config = account.prepared("existing-cluster")
    nodes = {"requirements": [], "nodeClassRef": CLASS}
    foreign = {"metadata": {"name": "default"}, "spec": {"template": {"spec": nodes}}}
    account.served.call(lambda: account.served.api.create(NODE_POOLS, foreign))

    with pytest.raises(OwnershipError, match="Kubernetes object NodePool/default exists"):
        account.plan(config)


def test_members_that_eks_adds_to_an_owned_cluster_are_adopted(account: TestAccount) -> None:
    initial = a_cluster(vpc=NETWORK)
    account.apply(initial)
    admin = "arn:aws:iam::123456789012:role/Admins"
    account.client("eks").create_access_entry(clusterName="dev", principalArn=admin, type="STANDARD")
    config = a_cluster(vpc=NETWORK, access={"admins": [admin]})

    account.apply(config)

    assert account.plan(config).steps == ()


@pytest.mark.slow
def test_same_name_in_another_region_has_its_own_iam_resources(account: TestAccount) -> None:
    east, west = (a_cluster(vpc=NETWORK, region=region) for region in ("us-east-1", "us-west-2"))
    account.apply(east)
    before = _iam_resources(account)

    plan = account.plan(west)
    account.apply(west)
    account.destroy(west)

    iam_steps = [step for step in plan.steps if step.kind in GLOBAL_KINDS]
    assert {step.action for step in iam_steps} == {Action.CREATE}
    assert _iam_resources(account) == before
    assert [step.id for step in account.plan(east).steps if step.kind in GLOBAL_KINDS] == []


@pytest.mark.slow
def test_names_without_a_region_are_kept_and_get_the_region_as_a_tag(account: TestAccount) -> None:
    file = a_cluster(vpc=NETWORK)
    account.apply(a_cluster(vpc=NETWORK, iam={"prefix": "dev"}))
    _remove_region_tags(account)
    names = set(_iam_resources(account))

    plan = account.plan(file)
    account.apply(file)

    assert plan.steps
    assert {str(change.path) for step in plan.steps for change in step.changes} == {
        "('Tags', 'dovetail.sh/region')"
    }
    assert account.plan(file).steps == ()
    assert set(_iam_resources(account)) == names
    assert account.destroy(file) == []
    assert _iam_resources(account) == {}


@pytest.mark.slow
def test_names_without_a_region_belong_to_the_region_of_the_controller_policies(account: TestAccount) -> None:
    account.apply(a_cluster(vpc=NETWORK, iam={"prefix": "dev"}))
    _remove_region_tags(account)
    before = _iam_resources(account)

    with pytest.raises(OwnershipError, match="IAM role dev-node belongs to cluster dev in another region"):
        account.plan(a_cluster(vpc=NETWORK, region="us-west-2", iam={"prefix": "dev"}))
    account.apply(a_cluster(vpc=NETWORK, region="us-west-2"))
    account.destroy(a_cluster(vpc=NETWORK, region="us-west-2"))

    assert _iam_resources(account) == before


def _iam_resources(account: TestAccount) -> dict[str, Any]:
    """Return roles and policies by name, with what they allow."""
    iam = account.client("iam")
    policies = {
        policy["PolicyName"]: iam.get_policy_version(
            PolicyArn=policy["Arn"], VersionId=policy["DefaultVersionId"]
        )["PolicyVersion"]["Document"]
        for policy in iam.list_policies(Scope="Local")["Policies"]
    }
    roles = {
        role["RoleName"]: sorted(
            policy["PolicyName"]
            for policy in iam.list_attached_role_policies(RoleName=role["RoleName"])["AttachedPolicies"]
        )
        for role in iam.list_roles()["Roles"]
    }
    return policies | roles


def _remove_region_tags(account: TestAccount) -> None:
    """Make IAM resources as versions without regions in names and tags made them."""
    iam, keys = account.client("iam"), ["dovetail.sh/region"]
    for role in iam.list_roles()["Roles"]:
        iam.untag_role(RoleName=role["RoleName"], TagKeys=keys)
    for policy in iam.list_policies(Scope="Local")["Policies"]:
        iam.untag_policy(PolicyArn=policy["Arn"], TagKeys=keys)
    for profile in iam.list_instance_profiles()["InstanceProfiles"]:
        iam.untag_instance_profile(InstanceProfileName=profile["InstanceProfileName"], TagKeys=keys)
