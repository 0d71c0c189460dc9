"""Checks of facts from AWS: each error has exactly its findings."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from dovetail.doctor.facts import Facts
from dovetail.doctor.run import run_checks
from dovetail.doctor.sources.iam import SPOT_ROLE
from dovetail.ports import api_resources as kinds
from tests.doctor.account import CLUSTER, CONTROLLER, DISCOVERY, NODES, NUMBER, OWNED, REGION, Account, tagged
from tests.doctor.cluster import Cluster

Break = Callable[[Account, Cluster], None]
GatherAll = Callable[[Account, Cluster], Facts]
BROKEN: list[Any] = []


def finds(*codes: str) -> Callable[[Break], Break]:
    """Declare the codes of all findings of an installation that is broken like this."""

    def register(break_it: Break) -> Break:
        BROKEN.append(pytest.param(break_it, set(codes), id=f"{codes[0]}-{break_it.__name__}"))
        return break_it

    return register


@finds("I1")
def node_role_has_no_access_entry(account: Account, cluster: Cluster) -> None:
    account.delete_access_entry()


@finds("I1")
def node_role_is_not_in_aws_auth(account: Account, cluster: Cluster) -> None:
    account.use_aws_auth()


@finds("I2")
def access_entry_is_of_type_standard(account: Account, cluster: Cluster) -> None:
    account.delete_access_entry()
    account.add_access_entry("STANDARD")


@finds("I3")
def node_role_may_not_pull_images(account: Account, cluster: Cluster) -> None:
    policy = "arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly"
    account.iam.detach_role_policy(RoleName=NODES, PolicyArn=policy)


@finds("I3")
def node_role_does_not_exist(account: Account, cluster: Cluster) -> None:
    cluster.node_class(lambda node_class: node_class["spec"].update(role="missing"))


@finds("I4")
def controller_may_not_describe(account: Account, cluster: Cluster) -> None:
    account.detach_policy("Discovery")


@finds("I4", "I6")
def controller_may_not_pass_roles(account: Account, cluster: Cluster) -> None:
    account.detach_policy("InstanceProfiles")
    every = ["iam:*InstanceProfile*"]
    statement = {"Effect": "Allow", "Action": every, "Resource": "*"}
    account.allow("Others", {"Version": "2012-10-17", "Statement": [statement]})


@finds("I6")
def controller_may_not_pass_the_node_role(account: Account, cluster: Cluster) -> None:
    trust = account.iam.get_role(RoleName=NODES)["Role"]["AssumeRolePolicyDocument"]
    account.iam.create_role(RoleName="own", AssumeRolePolicyDocument=json.dumps(trust))
    for policy in ("AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly"):
        arn = f"arn:aws:iam::aws:policy/{policy}"
        account.iam.attach_role_policy(RoleName="own", PolicyArn=arn)
    own = f"arn:aws:iam::{NUMBER}:role/own"
    account.eks.create_access_entry(clusterName=CLUSTER, principalArn=own, type="EC2_LINUX")
    cluster.node_class(lambda node_class: node_class["spec"].update(role="own"))


@finds("I8")
def spot_service_linked_role_does_not_exist(account: Account, cluster: Cluster) -> None:
    account.iam.delete_role(RoleName=SPOT_ROLE)


def _encrypt(cluster: Cluster, key: str) -> None:
    ebs = {"encrypted": True, "kmsKeyID": key, "volumeSize": "20Gi"}
    disk = {"deviceName": "/dev/xvda", "ebs": ebs}
    cluster.node_class(lambda node_class: node_class["spec"].update(blockDeviceMappings=[disk]))


def _foreign_key(account: Account) -> str:
    owner = {"AWS": f"arn:aws:iam::{NUMBER}:role/security"}
    only = {"Effect": "Allow", "Principal": owner, "Action": "kms:*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [only]})
    return str(account.kms.create_key(Policy=policy)["KeyMetadata"]["Arn"])


@finds("I10")
def default_key_does_not_allow_the_controller(account: Account, cluster: Cluster) -> None:
    account.encrypt_by_default(_foreign_key(account))


@finds("I10")
def key_of_a_node_class_does_not_allow_the_controller(account: Account, cluster: Cluster) -> None:
    _encrypt(cluster, _foreign_key(account))


@finds("N1")
def two_security_groups_have_the_discovery_tag(account: Account, cluster: Cluster) -> None:
    account.security_group("control-plane", DISCOVERY)


@finds("N1", "N2")
def two_security_groups_have_the_cluster_tag(account: Account, cluster: Cluster) -> None:
    account.security_group("control-plane", {**DISCOVERY, **OWNED})


@finds("N2")
def no_security_group_has_the_cluster_tag(account: Account, cluster: Cluster) -> None:
    owned = [{"Key": key} for key in OWNED]
    account.ec2.delete_tags(Resources=[account.group], Tags=owned)


@finds("N3")
def no_subnet_has_the_discovery_tag(account: Account, cluster: Cluster) -> None:
    tags = [{"Key": key} for key in DISCOVERY]
    account.ec2.delete_tags(Resources=account.subnets, Tags=tags)


@finds("N4")
def subnet_is_nearly_full(account: Account, cluster: Cluster) -> None:
    account.ec2.create_subnet(
        VpcId=account.vpc,
        AvailabilityZone=f"{REGION}a",
        CidrBlock="10.0.255.0/28",
        TagSpecifications=tagged("subnet", DISCOVERY),
    )


@finds("N4")
def max_pods_exceeds_the_eni_limit(account: Account, cluster: Cluster) -> None:
    cluster.node_class(lambda node_class: node_class["spec"].update(kubelet={"maxPods": 110}))


@finds("N7", "N8")
def private_network_has_no_endpoints(account: Account, cluster: Cluster) -> None:
    account.ec2.delete_route(**account.default_route)


@finds("N8")
def isolated_vpc_has_no_endpoints(account: Account, cluster: Cluster) -> None:
    account.ec2.delete_route(**account.default_route)
    cluster.set("ISOLATED_VPC", "true")


@finds("K8")
def interruption_queue_does_not_exist(account: Account, cluster: Cluster) -> None:
    account.sqs.delete_queue(QueueUrl=account.queue_url)


@finds("K8")
def no_rule_matches_spot_interruptions(account: Account, cluster: Cluster) -> None:
    account.events.remove_targets(Rule="demo-spot", Ids=["queue"])


@finds("P7")
def capacity_reservation_is_idle(account: Account, cluster: Cluster) -> None:
    account.reserve("m5.large", free=3)


@finds("D3")
def instance_has_no_nodeclaim(account: Account, cluster: Cluster) -> None:
    account.run_instance()


@finds("D3")
def network_interface_is_left_over(account: Account, cluster: Cluster) -> None:
    tags = {"node.k8s.amazonaws.com/instance_id": "i-gone", "cluster.k8s.amazonaws.com/name": CLUSTER}
    account.ec2.create_network_interface(
        SubnetId=account.subnets[0], TagSpecifications=tagged("network-interface", tags)
    )


@finds("D3")
def launch_template_is_left_over(account: Account, cluster: Cluster) -> None:
    tags = {"karpenter.k8s.aws/ec2nodeclass": "gone", "eks:eks-cluster-name": CLUSTER}
    account.ec2.create_launch_template(
        LaunchTemplateName="karpenter.k8s.aws/1",
        LaunchTemplateData={"InstanceType": "m5.large"},
        TagSpecifications=tagged("launch-template", tags),
    )


def _of_class(name: str, region: str) -> list[dict[str, str]]:
    tags = {**OWNED, "karpenter.k8s.aws/ec2nodeclass": name, "topology.kubernetes.io/region": region}
    return [{"Key": key, "Value": value} for key, value in tags.items()]


@finds("D3")
def instance_profile_is_left_over(account: Account, cluster: Cluster) -> None:
    account.iam.create_instance_profile(
        InstanceProfileName="demo_1", Path=f"/karpenter/{REGION}/{CLUSTER}/1/", Tags=_of_class("gone", REGION)
    )


@pytest.mark.parametrize(("break_it", "codes"), BROKEN)
def test_broken_installation_has_exactly_these_findings(
    break_it: Break, codes: set[str], account: Account, gather_all: GatherAll
) -> None:
    cluster = Cluster(account.instance)
    break_it(account, cluster)

    report = run_checks(gather_all(account, cluster))

    assert {finding.code for finding in report.findings} == codes
    assert report.skipped == ()


def test_node_role_in_aws_auth_has_no_findings(account: Account, gather_all: GatherAll) -> None:
    cluster = Cluster(account.instance)
    account.use_aws_auth()
    mapped = f"- rolearn: {account.node_role_arn}\n  username: system:node:{{{{EC2PrivateDNSName}}}}"
    auth = {"metadata": {"name": "aws-auth", "namespace": "kube-system"}}
    cluster.put(kinds.CONFIG_MAPS, {**auth, "data": {"mapRoles": mapped}})

    report = run_checks(gather_all(account, cluster))

    assert report.findings == ()


def test_kms_key_that_the_role_may_use_has_no_findings(account: Account, gather_all: GatherAll) -> None:
    cluster = Cluster(account.instance)
    key = account.kms.create_key()["KeyMetadata"]["Arn"]
    _encrypt(cluster, key)
    grants = {"Effect": "Allow", "Action": "kms:CreateGrant", "Resource": key}
    account.allow("Keys", {"Version": "2012-10-17", "Statement": [grants]})

    report = run_checks(gather_all(account, cluster))

    assert report.findings == ()


def test_kms_key_with_a_grant_has_no_findings(account: Account, gather_all: GatherAll) -> None:
    cluster = Cluster(account.instance)
    key = _foreign_key(account)
    _encrypt(cluster, key)
    role = f"arn:aws:iam::{NUMBER}:role/{CONTROLLER}"
    account.kms.create_grant(KeyId=key, GranteePrincipal=role, Operations=["CreateGrant"])

    report = run_checks(gather_all(account, cluster))

    assert report.findings == ()


def test_instance_profile_of_another_region_is_ignored(account: Account, gather_all: GatherAll) -> None:
    cluster = Cluster(account.instance)
    account.iam.create_instance_profile(InstanceProfileName="demo_1", Tags=_of_class("theirs", "eu-west-1"))

    report = run_checks(gather_all(account, cluster))

    assert report.findings == ()


def test_controller_without_a_role_skips_the_checks_of_its_policy(
    account: Account, gather_all: GatherAll
) -> None:
    cluster = Cluster(account.instance)
    associations = account.eks.list_pod_identity_associations(clusterName=CLUSTER)["associations"]
    account.eks.delete_pod_identity_association(
        clusterName=CLUSTER, associationId=associations[0]["associationId"]
    )

    report = run_checks(gather_all(account, cluster))

    assert {finding.code for finding in report.findings} == {"I12"}
    assert {check.code for check in report.skipped} == {"I4", "I6", "I10", "I13", "I15"}
    assert "no Pod Identity association" in report.skipped[0].missing[0].why
