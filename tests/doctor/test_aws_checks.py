"""What can be seen in AWS: each thing that is broken is found, and nothing else."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from dovetail.doctor.check import examined
from dovetail.doctor.checks.registry import CHECKS
from dovetail.doctor.facts import Facts
from dovetail.doctor.sources.iam import SPOT_ROLE
from dovetail.ports import api_resources as kinds
from tests.doctor.account import (
    CLUSTER,
    CONTROLLER,
    DISCOVERY,
    NODES,
    NUMBER,
    OWNED,
    REGION,
    Account,
    tagged,
)
from tests.doctor.cluster import Cluster

Break = Callable[[Account, Cluster], None]
LookAtAll = Callable[[Account, Cluster], Facts]
BROKEN: list[Any] = []


def finds(*codes: str) -> Callable[[Break], Break]:
    """Say what is found when it is broken like this: all of it, and nothing else."""

    def known(how: Break) -> Break:
        BROKEN.append(pytest.param(how, set(codes), id=f"{codes[0]}-{how.__name__}"))
        return how

    return known


@finds("I1")
def the_nodes_role_has_no_access_entry(account: Account, cluster: Cluster) -> None:
    account.keep_out()


@finds("I1")
def the_nodes_role_is_not_in_aws_auth(account: Account, cluster: Cluster) -> None:
    account.use_aws_auth()


@finds("I2")
def the_access_entry_is_a_persons(account: Account, cluster: Cluster) -> None:
    account.keep_out()
    account.let_in("STANDARD")


@finds("I3")
def the_nodes_role_may_not_pull_images(account: Account, cluster: Cluster) -> None:
    policy = "arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly"
    account.iam.detach_role_policy(RoleName=NODES, PolicyArn=policy)


@finds("I3")
def the_nodes_role_is_not_there(account: Account, cluster: Cluster) -> None:
    cluster.node_class(lambda one: one["spec"].update(role="nobody"))


@finds("I4")
def the_controller_may_not_describe(account: Account, cluster: Cluster) -> None:
    account.forbid("Discovery")


@finds("I4", "I6")
def the_controller_may_not_pass_roles(account: Account, cluster: Cluster) -> None:
    account.forbid("InstanceProfiles")
    every = ["iam:*InstanceProfile*"]
    statement = {"Effect": "Allow", "Action": every, "Resource": "*"}
    account.allow("Others", {"Version": "2012-10-17", "Statement": [statement]})


@finds("I6")
def the_nodes_have_a_role_that_the_policy_does_not_name(account: Account, cluster: Cluster) -> None:
    account.iam.create_role(RoleName="own", AssumeRolePolicyDocument="{}")
    for policy in (
        "AmazonEKSWorkerNodePolicy",
        "AmazonEKS_CNI_Policy",
        "AmazonEC2ContainerRegistryReadOnly",
    ):
        arn = f"arn:aws:iam::aws:policy/{policy}"
        account.iam.attach_role_policy(RoleName="own", PolicyArn=arn)
    own = f"arn:aws:iam::{NUMBER}:role/own"
    account.eks.create_access_entry(clusterName=CLUSTER, principalArn=own, type="EC2_LINUX")
    cluster.node_class(lambda one: one["spec"].update(role="own"))


@finds("I8")
def the_account_has_never_used_spot(account: Account, cluster: Cluster) -> None:
    account.iam.delete_role(RoleName=SPOT_ROLE)


def _encrypt(cluster: Cluster, key: str) -> None:
    ebs = {"encrypted": True, "kmsKeyID": key, "volumeSize": "20Gi"}
    disk = {"deviceName": "/dev/xvda", "ebs": ebs}
    cluster.node_class(lambda one: one["spec"].update(blockDeviceMappings=[disk]))


def _key_of_others(account: Account) -> str:
    owner = {"AWS": f"arn:aws:iam::{NUMBER}:role/security"}
    only = {"Effect": "Allow", "Principal": owner, "Action": "kms:*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [only]})
    return str(account.kms.create_key(Policy=policy)["KeyMetadata"]["Arn"])


@finds("I10")
def every_volume_has_a_key_that_nobody_may_use(account: Account, cluster: Cluster) -> None:
    account.encrypt_by_default(_key_of_others(account))


@finds("I10")
def volumes_of_a_class_have_a_key_that_nobody_may_use(account: Account, cluster: Cluster) -> None:
    _encrypt(cluster, _key_of_others(account))


@finds("N1")
def two_groups_have_the_discovery_tag(account: Account, cluster: Cluster) -> None:
    account.security_group("control-plane", DISCOVERY)


@finds("N1", "N2")
def two_groups_are_the_clusters(account: Account, cluster: Cluster) -> None:
    account.security_group("control-plane", {**DISCOVERY, **OWNED})


@finds("N2")
def no_group_is_the_clusters(account: Account, cluster: Cluster) -> None:
    owned = [{"Key": key} for key in OWNED]
    account.ec2.delete_tags(Resources=[account.group], Tags=owned)


@finds("N3")
def no_subnet_has_the_tag(account: Account, cluster: Cluster) -> None:
    tags = [{"Key": key} for key in DISCOVERY]
    account.ec2.delete_tags(Resources=account.subnets, Tags=tags)


@finds("N4")
def a_subnet_is_nearly_full(account: Account, cluster: Cluster) -> None:
    account.ec2.create_subnet(
        VpcId=account.vpc,
        AvailabilityZone=f"{REGION}a",
        CidrBlock="10.0.255.0/28",
        TagSpecifications=tagged("subnet", DISCOVERY),
    )


@finds("N4")
def nodes_take_more_pods_than_they_have_addresses(account: Account, cluster: Cluster) -> None:
    cluster.node_class(lambda one: one["spec"].update(kubelet={"maxPods": 110}))


@finds("N7", "N8")
def a_private_network_has_no_endpoints(account: Account, cluster: Cluster) -> None:
    account.ec2.delete_route(**account.way_out)


@finds("N8")
def a_private_network_that_is_known_as_such_has_no_endpoints(
    account: Account, cluster: Cluster
) -> None:
    account.ec2.delete_route(**account.way_out)
    cluster.set("ISOLATED_VPC", "true")


@finds("K8")
def the_queue_is_not_there(account: Account, cluster: Cluster) -> None:
    account.sqs.delete_queue(QueueUrl=account.queue_url)


@finds("K8")
def no_rule_tells_of_spot(account: Account, cluster: Cluster) -> None:
    account.events.remove_targets(Rule="demo-spot", Ids=["queue"])


@finds("P7")
def a_reservation_is_idle(account: Account, cluster: Cluster) -> None:
    account.reserve("m5.large", left=3)


@finds("D3")
def an_instance_has_no_claim(account: Account, cluster: Cluster) -> None:
    account.run_instance()


@finds("D3")
def an_interface_of_a_node_is_left(account: Account, cluster: Cluster) -> None:
    tags = {
        "node.k8s.amazonaws.com/instance_id": "i-gone",
        "cluster.k8s.amazonaws.com/name": CLUSTER,
    }
    account.ec2.create_network_interface(
        SubnetId=account.subnets[0], TagSpecifications=tagged("network-interface", tags)
    )


@finds("D3")
def a_launch_template_of_a_class_is_left(account: Account, cluster: Cluster) -> None:
    tags = {"karpenter.k8s.aws/ec2nodeclass": "gone", "eks:eks-cluster-name": CLUSTER}
    account.ec2.create_launch_template(
        LaunchTemplateName="karpenter.k8s.aws/1",
        LaunchTemplateData={"InstanceType": "m5.large"},
        TagSpecifications=tagged("launch-template", tags),
    )


def _of_class(name: str, region: str) -> list[dict[str, str]]:
    tags = {
        **OWNED,
        "karpenter.k8s.aws/ec2nodeclass": name,
        "topology.kubernetes.io/region": region,
    }
    return [{"Key": key, "Value": value} for key, value in tags.items()]


@finds("D3")
def an_instance_profile_of_a_class_is_left(account: Account, cluster: Cluster) -> None:
    account.iam.create_instance_profile(
        InstanceProfileName="demo_1",
        Path=f"/karpenter/{REGION}/{CLUSTER}/1/",
        Tags=_of_class("gone", REGION),
    )


@pytest.mark.parametrize(("how", "codes"), BROKEN)
def test_what_is_broken_is_found_and_nothing_else(
    how: Break, codes: set[str], account: Account, look_at_aws: LookAtAll
) -> None:
    cluster = Cluster(account.instance)
    how(account, cluster)

    report = examined(look_at_aws(account, cluster), CHECKS)

    assert {one.code for one in report.findings} == codes
    assert report.skipped == ()


def test_a_role_in_aws_auth_may_join(account: Account, look_at_aws: LookAtAll) -> None:
    cluster = Cluster(account.instance)
    account.use_aws_auth()
    mapped = (
        f"- rolearn: {account.node_role_arn}\n  username: system:node:{{{{EC2PrivateDNSName}}}}"
    )
    auth = {"metadata": {"name": "aws-auth", "namespace": "kube-system"}}
    cluster.put(kinds.CONFIG_MAPS, {**auth, "data": {"mapRoles": mapped}})

    report = examined(look_at_aws(account, cluster), CHECKS)

    assert report.findings == ()


def test_a_key_of_the_account_is_fine_where_the_role_may_use_it(
    account: Account, look_at_aws: LookAtAll
) -> None:
    cluster = Cluster(account.instance)
    key = account.kms.create_key()["KeyMetadata"]["Arn"]
    _encrypt(cluster, key)
    grants = {"Effect": "Allow", "Action": "kms:CreateGrant", "Resource": key}
    account.allow("Keys", {"Version": "2012-10-17", "Statement": [grants]})

    report = examined(look_at_aws(account, cluster), CHECKS)

    assert report.findings == ()


def test_a_key_that_was_granted_to_the_controller_is_fine(
    account: Account, look_at_aws: LookAtAll
) -> None:
    cluster = Cluster(account.instance)
    key = _key_of_others(account)
    _encrypt(cluster, key)
    role = f"arn:aws:iam::{NUMBER}:role/{CONTROLLER}"
    account.kms.create_grant(KeyId=key, GranteePrincipal=role, Operations=["CreateGrant"])

    report = examined(look_at_aws(account, cluster), CHECKS)

    assert report.findings == ()


def test_an_instance_profile_of_a_cluster_of_that_name_elsewhere_is_left_alone(
    account: Account, look_at_aws: LookAtAll
) -> None:
    cluster = Cluster(account.instance)
    account.iam.create_instance_profile(
        InstanceProfileName="demo_1", Tags=_of_class("theirs", "eu-west-1")
    )

    report = examined(look_at_aws(account, cluster), CHECKS)

    assert report.findings == ()


def test_a_controller_without_a_role_leaves_checks_of_its_policy_unmade(
    account: Account, look_at_aws: LookAtAll
) -> None:
    cluster = Cluster(account.instance)
    found = account.eks.list_pod_identity_associations(clusterName=CLUSTER)["associations"]
    account.eks.delete_pod_identity_association(
        clusterName=CLUSTER, associationId=found[0]["associationId"]
    )

    report = examined(look_at_aws(account, cluster), CHECKS)

    assert {one.code for one in report.skipped} == {"I4", "I6", "I10"}
    assert "no Pod Identity association" in report.skipped[0].missing[0].why
