"""Ownership: resources of others with the names of ours."""

import json
from typing import Any

import pytest

from dovetail.eks.apply.ownership import OwnershipError
from dovetail.ports.api_resources import NODE_POOLS
from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount

NETWORK = {"create": {"cidr": "10.0.0.0/16", "zones": 2}}
CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def _create_role(account: TestAccount) -> None:
    account.client("iam").create_role(RoleName="dev-node", AssumeRolePolicyDocument="{}")


def _create_profile(account: TestAccount) -> None:
    account.client("iam").create_instance_profile(InstanceProfileName="dev-node")


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
        (_create_role, "IAM role dev-node"),
        (_create_profile, "instance profile dev-node"),
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

    assert "IAM role dev-node" in str(raised.value)
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
    assert account.client("iam").get_role(RoleName="dev-node")
    response = account.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["Policy"])
    assert json.loads(response["Attributes"]["Policy"])["Id"] == "theirs"


def test_resource_with_the_ownership_tag_is_adopted(account: TestAccount) -> None:
    config = a_cluster(vpc=NETWORK)
    _create_role(account)
    tag = {"Key": "dovetail.sh/cluster", "Value": "dev"}
    account.client("iam").tag_role(RoleName="dev-node", Tags=[tag])

    account.apply(config)

    assert account.plan(config).steps == ()


def test_resource_of_another_cluster_is_rejected_with_its_name(account: TestAccount) -> None:
    _create_role(account)
    tag = {"Key": "dovetail.sh/cluster", "Value": "staging"}
    account.client("iam").tag_role(RoleName="dev-node", Tags=[tag])

    with pytest.raises(OwnershipError, match="IAM role dev-node belongs to cluster staging"):
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
