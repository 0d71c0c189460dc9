"""Things of other people that stand where ours should be."""

import json
from typing import Any

import pytest

from dovetail.eks.apply.ownership import NotOurs
from dovetail.ports.api_resources import NODE_POOLS
from tests.support.clusters import a_cluster
from tests.support.moto.account import TestAccount

NETWORK = {"create": {"cidr": "10.0.0.0/16", "zones": 2}}
CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def _a_role(account: TestAccount) -> None:
    account.client("iam").create_role(RoleName="dev-node", AssumeRolePolicyDocument="{}")


def _a_profile(account: TestAccount) -> None:
    account.client("iam").create_instance_profile(InstanceProfileName="dev-node")


def _a_queue(account: TestAccount) -> None:
    account.client("sqs").create_queue(QueueName="dev")


def _a_rule(account: TestAccount) -> None:
    pattern = json.dumps({"source": ["aws.health"]})
    account.client("events").put_rule(Name="dev-health", EventPattern=pattern)


def _a_template(account: TestAccount) -> None:
    account.client("ec2").create_launch_template(
        LaunchTemplateName="dev-controller", LaunchTemplateData={"InstanceType": "m5.large"}
    )


def _a_log_group(account: TestAccount) -> None:
    account.client("logs").create_log_group(logGroupName="/aws/eks/dev/cluster")


def _a_running_cluster(account: TestAccount) -> None:
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
    ("make", "named"),
    [
        (_a_role, "IAM role dev-node"),
        (_a_profile, "instance profile dev-node"),
        (_a_queue, "SQS queue dev"),
        (_a_rule, "EventBridge rule dev-health"),
        (_a_template, "launch template dev-controller"),
        (_a_log_group, "log group /aws/eks/dev/cluster"),
        (_a_running_cluster, "EKS cluster dev"),
    ],
)
def test_what_has_our_name_and_is_not_ours_is_refused_and_left_as_it_is(
    account: TestAccount, make: Any, named: str
) -> None:
    spec = a_cluster(
        vpc=NETWORK, iam={"nodeRole": {"instanceProfile": True}}, logging={"types": ["audit"]}
    )
    make(account)
    account.moto.door.reset()

    with pytest.raises(NotOurs, match=f"{named} is there and was not made for this cluster"):
        account.plan(spec)
    with pytest.raises(NotOurs, match="nothing was changed"):
        account.apply(spec)

    reading = ("Describe", "Get", "List", "GET ")
    assert [one for one in account.moto.door.calls if not one.startswith(reading)] == []


def test_all_that_stands_in_the_way_is_named_at_once(account: TestAccount) -> None:
    _a_role(account)
    _a_queue(account)

    with pytest.raises(NotOurs) as refused:
        account.plan(a_cluster(vpc=NETWORK))

    assert "IAM role dev-node" in str(refused.value)
    assert "SQS queue dev" in str(refused.value)


def test_destroying_takes_nothing_that_only_has_our_name(account: TestAccount) -> None:
    _a_role(account)
    _a_queue(account)
    queue = account.client("sqs").get_queue_url(QueueName="dev")["QueueUrl"]
    anybody = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}
    theirs = json.dumps({"Version": "2012-10-17", "Statement": [anybody], "Id": "theirs"})
    account.client("sqs").set_queue_attributes(QueueUrl=queue, Attributes={"Policy": theirs})

    left = account.destroy(a_cluster(vpc=NETWORK))

    assert left == []
    assert account.client("iam").get_role(RoleName="dev-node")
    told = account.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["Policy"])
    assert json.loads(told["Attributes"]["Policy"])["Id"] == "theirs"


def test_what_is_handed_over_by_its_tag_is_ours_from_then_on(account: TestAccount) -> None:
    spec = a_cluster(vpc=NETWORK)
    _a_role(account)
    mark = {"Key": "dovetail.sh/cluster", "Value": "dev"}
    account.client("iam").tag_role(RoleName="dev-node", Tags=[mark])

    account.apply(spec)

    assert account.plan(spec).steps == ()


def test_what_belongs_to_another_cluster_of_ours_is_refused_by_that_name(
    account: TestAccount,
) -> None:
    _a_role(account)
    mark = {"Key": "dovetail.sh/cluster", "Value": "staging"}
    account.client("iam").tag_role(RoleName="dev-node", Tags=[mark])

    with pytest.raises(NotOurs, match="IAM role dev-node belongs to cluster staging"):
        account.plan(a_cluster(vpc=NETWORK))


def test_a_security_group_of_others_in_a_vpc_of_others_is_refused(account: TestAccount) -> None:
    spec = account.prepared("existing-vpc")
    existing = spec.vpc.existing if spec.vpc else None
    account.client("ec2").create_security_group(
        GroupName="dev-eks-cluster-node",
        Description="theirs",
        VpcId=existing.id if existing else "",
    )

    with pytest.raises(NotOurs, match="security group dev-eks-cluster-node is there"):
        account.plan(spec)


def test_a_node_pool_of_others_in_their_cluster_is_refused(account: TestAccount) -> None:
    spec = account.prepared("existing-cluster")
    nodes = {"requirements": [], "nodeClassRef": CLASS}
    theirs = {"metadata": {"name": "default"}, "spec": {"template": {"spec": nodes}}}
    account.served.call(lambda: account.served.api.create(NODE_POOLS, theirs))

    with pytest.raises(NotOurs, match="Kubernetes object NodePool/default is there"):
        account.plan(spec)


def test_what_eks_itself_puts_into_a_cluster_of_ours_is_taken_over(account: TestAccount) -> None:
    bare = a_cluster(vpc=NETWORK)
    account.apply(bare)
    admin = "arn:aws:iam::123456789012:role/Admins"
    account.client("eks").create_access_entry(
        clusterName="dev", principalArn=admin, type="STANDARD"
    )
    spec = a_cluster(vpc=NETWORK, access={"admins": [admin]})

    account.apply(spec)

    assert account.plan(spec).steps == ()
