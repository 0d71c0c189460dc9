"""A cluster of ``dovetail cluster apply``, broken in one place at a time.

The applied cluster itself has no findings. Each change of AWS is reverted after its
test; Kubernetes objects are copied for each test.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dovetail.doctor.checks.registry import CHECKS
from dovetail.doctor.run import Report, run_checks
from dovetail.doctor.sources.iam import SPOT_ROLE
from dovetail.ports import api_resources as kinds
from tests.doctor.account import tagged
from tests.doctor.applied_cluster import AppliedAccount, AppliedCluster, applied_account, healthy_config
from tests.doctor.cluster import a_controller, a_deployment, a_pod, condition

Plant = Callable[[AppliedAccount, AppliedCluster], Iterator[None]]
BROKEN: list[Any] = []
CONTROLLER_NAMESPACE, CONTROLLER = "kube-system", "dovetail"


def finds(*codes: str, about: str) -> Callable[[Plant], Plant]:
    """Declare the codes of all findings, and the object of the first."""

    def register(plant: Plant) -> Plant:
        BROKEN.append(pytest.param(contextmanager(plant), codes, about, id=plant.__name__))
        return plant

    return register


@pytest.fixture(scope="module")
def applied() -> Iterator[AppliedAccount]:
    """The applied cluster; not for the session, because other tests reset moto, too."""
    with applied_account(healthy_config()) as account:
        yield account


def diagnose(account: AppliedAccount, cluster: AppliedCluster) -> Report:
    return run_checks(asyncio.run(account.gather(cluster)))


# Roles and policies


def _association(account: AppliedAccount) -> dict[str, Any]:
    name = account.config.name
    (listed,) = account.eks.list_pod_identity_associations(clusterName=name)["associations"]
    response = account.eks.describe_pod_identity_association(
        clusterName=name, associationId=listed["associationId"]
    )
    return dict(response["association"])


@finds("I12", about="ServiceAccount/kube-system/dovetail")
def pod_identity_association_is_deleted(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    association, name = _association(account), account.config.name
    account.eks.delete_pod_identity_association(clusterName=name, associationId=association["associationId"])
    yield
    keys = ("namespace", "serviceAccount", "roleArn")
    account.eks.create_pod_identity_association(clusterName=name, **{key: association[key] for key in keys})


@finds("I12", about="ServiceAccount/kube-system/dovetail")
def role_of_the_controller_does_not_exist(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    association, name = _association(account), account.config.name
    key = {"clusterName": name, "associationId": association["associationId"]}
    account.eks.update_pod_identity_association(**key, roleArn=association["roleArn"] + "-gone")
    yield
    account.eks.update_pod_identity_association(**key, roleArn=association["roleArn"])


@contextmanager
def _trusting(account: AppliedAccount, role: str, service: str) -> Iterator[None]:
    before = account.iam.get_role(RoleName=role)["Role"]["AssumeRolePolicyDocument"]
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    _set_trust(account, role, {"Version": "2012-10-17", "Statement": [statement]})
    yield
    _set_trust(account, role, before)


def _set_trust(account: AppliedAccount, role: str, document: Any) -> None:
    account.iam.update_assume_role_policy(RoleName=role, PolicyDocument=json.dumps(document))


@finds("I13", about="role/dev-us-east-1-dovetail")
def role_of_the_controller_trusts_lambda(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    with _trusting(account, account.names.controller_role, "lambda.amazonaws.com"):
        yield


@finds("I13", about="role/dev-us-east-1-dovetail")
def role_of_the_controller_lacks_tag_session(
    account: AppliedAccount, cluster: AppliedCluster
) -> Iterator[None]:
    with _trusting(account, account.names.controller_role, "pods.eks.amazonaws.com"):
        yield


@finds("I13", "I16", about="role/dev-us-east-1-dovetail")
def irsa_has_no_oidc_provider_and_no_trust(
    account: AppliedAccount, cluster: AppliedCluster
) -> Iterator[None]:
    annotations = {"eks.amazonaws.com/role-arn": _association(account)["roleArn"]}
    cluster.change(
        kinds.SERVICE_ACCOUNTS,
        CONTROLLER,
        lambda obj: obj["metadata"].update(annotations=annotations),
        CONTROLLER_NAMESPACE,
    )
    yield


@finds("I14", about="role/dev-us-east-1-node")
def node_role_is_not_for_ec2(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    with _trusting(account, account.names.node_role, "ecs.amazonaws.com"):
        yield


@finds("I15", about="role/dev-us-east-1-dovetail")
def policy_is_of_another_cluster(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    arn = _policy_arn(account, "NodeLifecycle")
    text = json.dumps(_document(account, arn))
    for part in ("kubernetes.io/cluster/", 'eks:eks-cluster-name": "'):
        text = text.replace(f"{part}dev", f"{part}other")
    version = account.iam.create_policy_version(PolicyArn=arn, PolicyDocument=text, SetAsDefault=True)
    yield
    account.iam.set_default_policy_version(PolicyArn=arn, VersionId="v1")
    account.iam.delete_policy_version(PolicyArn=arn, VersionId=version["PolicyVersion"]["VersionId"])


@finds("I15", "I4", about="role/dev-us-east-1-dovetail")
def policy_is_of_another_region(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    arn = _policy_arn(account, "NodeLifecycle")
    text = json.dumps(_document(account, arn)).replace("us-east-1", "us-west-2")
    version = account.iam.create_policy_version(PolicyArn=arn, PolicyDocument=text, SetAsDefault=True)
    yield
    account.iam.set_default_policy_version(PolicyArn=arn, VersionId="v1")
    account.iam.delete_policy_version(PolicyArn=arn, VersionId=version["PolicyVersion"]["VersionId"])


def _policy_arn(account: AppliedAccount, about: str) -> str:
    attached = account.iam.list_attached_role_policies(RoleName=account.names.controller_role)
    (arn,) = [
        policy["PolicyArn"]
        for policy in attached["AttachedPolicies"]
        if policy["PolicyName"] == account.names.controller_policy(about)
    ]
    return str(arn)


def _document(account: AppliedAccount, arn: str) -> Any:
    version = account.iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
    response = account.iam.get_policy_version(PolicyArn=arn, VersionId=version)
    return response["PolicyVersion"]["Document"]


@contextmanager
def _detached(account: AppliedAccount, role: str, arn: str) -> Iterator[None]:
    account.iam.detach_role_policy(RoleName=role, PolicyArn=arn)
    yield
    account.iam.attach_role_policy(RoleName=role, PolicyArn=arn)


@finds("I3", about="role/dev-us-east-1-node")
def node_role_lacks_the_cni_policy(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    with _detached(account, account.names.node_role, "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"):
        yield


@finds("I3", about="EC2NodeClass/default")
def node_role_does_not_exist(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    cluster.change(kinds.EC2_NODE_CLASSES, "default", lambda obj: obj["spec"].update(role="gone"))
    yield


@finds("I4", "I6", about="role/dev-us-east-1-dovetail")
def policy_for_instance_profiles_is_detached(
    account: AppliedAccount, cluster: AppliedCluster
) -> Iterator[None]:
    with _detached(account, account.names.controller_role, _policy_arn(account, "InstanceProfiles")):
        yield


@finds("I4", about="role/dev-us-east-1-dovetail")
def policy_for_discovery_is_detached(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    with _detached(account, account.names.controller_role, _policy_arn(account, "Discovery")):
        yield


@finds("I4", about="role/dev-us-east-1-dovetail")
def inline_policy_denies_launches(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    statement = {"Effect": "Deny", "Action": ["ec2:RunInstances", "ec2:CreateFleet"], "Resource": "*"}
    policy = {"RoleName": account.names.controller_role, "PolicyName": "deny"}
    account.iam.put_role_policy(
        **policy, PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    )
    yield
    account.iam.delete_role_policy(**policy)


@finds("I8", about="role/AWSServiceRoleForEC2Spot")
def spot_service_linked_role_does_not_exist(
    account: AppliedAccount, cluster: AppliedCluster
) -> Iterator[None]:
    account.iam.delete_role(RoleName=SPOT_ROLE)
    yield
    account.iam.create_role(RoleName=SPOT_ROLE, AssumeRolePolicyDocument="{}")


@finds("I17", about="DaemonSet/kube-system/eks-pod-identity-agent")
def pod_identity_agent_is_not_installed(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    cluster.api.delete(kinds.DAEMON_SETS, "eks-pod-identity-agent", "kube-system")
    yield


# Access entries


def _node_role_arn(account: AppliedAccount) -> str:
    return str(account.iam.get_role(RoleName=account.names.node_role)["Role"]["Arn"])


@contextmanager
def _access_entry(account: AppliedAccount, *types: str) -> Iterator[None]:
    key = {"clusterName": account.config.name, "principalArn": _node_role_arn(account)}
    account.eks.delete_access_entry(**key)
    for kind in types:
        account.eks.create_access_entry(**key, type=kind)
    yield
    if types:
        account.eks.delete_access_entry(**key)
    account.eks.create_access_entry(**key, type="EC2_LINUX")


@finds("I1", about="role/dev-us-east-1-node")
def access_entry_of_the_node_role_is_deleted(
    account: AppliedAccount, cluster: AppliedCluster
) -> Iterator[None]:
    with _access_entry(account):
        yield


@finds("I2", about="role/dev-us-east-1-node")
def access_entry_of_the_node_role_is_standard(
    account: AppliedAccount, cluster: AppliedCluster
) -> Iterator[None]:
    with _access_entry(account, "STANDARD"):
        yield


# Interruption queue


@finds("K8", about="Deployment/kube-system/dovetail")
def rule_for_spot_interruptions_is_disabled(
    account: AppliedAccount, cluster: AppliedCluster
) -> Iterator[None]:
    account.events.disable_rule(Name="dev-spot")
    yield
    account.events.enable_rule(Name="dev-spot")


@finds("K8", about="Deployment/kube-system/dovetail")
def queue_does_not_exist(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    url = account.sqs.get_queue_url(QueueName="dev")["QueueUrl"]
    policy = account.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]
    account.sqs.delete_queue(QueueUrl=url)
    yield
    account.sqs.create_queue(QueueName="dev", Attributes=policy)


@finds("K15", about="queue/dev")
def queue_policy_does_not_allow_events(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    with _queue_policy(account, lambda statement: statement.update(Principal={"AWS": "123456789012"})):
        yield


@finds("K15", about="queue/dev")
def queue_policy_names_another_rule(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    other = {"ArnEquals": {"aws:SourceArn": "arn:aws:events:us-east-1:123456789012:rule/other"}}
    with _queue_policy(account, lambda statement: statement.update(Condition=other)):
        yield


@contextmanager
def _queue_policy(account: AppliedAccount, edit: Callable[[Any], None]) -> Iterator[None]:
    url = account.sqs.get_queue_url(QueueName="dev")["QueueUrl"]
    before = account.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]
    document = json.loads(before["Policy"])
    edit(document["Statement"][0])
    account.sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(document)})
    yield
    account.sqs.set_queue_attributes(QueueUrl=url, Attributes=before)


# Network


def _node_group(account: AppliedAccount) -> dict[str, Any]:
    filters = [{"Name": "group-name", "Values": [account.names.node_security_group]}]
    (group,) = account.ec2.describe_security_groups(Filters=filters)["SecurityGroups"]
    return dict(group)


def _discovery(account: AppliedAccount) -> dict[str, str]:
    return {"karpenter.sh/discovery": account.config.name}


@contextmanager
def _second_group(account: AppliedAccount, vpc: str) -> Iterator[None]:
    group = account.ec2.create_security_group(
        VpcId=vpc,
        GroupName="second",
        Description="second",
        TagSpecifications=tagged("security-group", _discovery(account)),
    )
    yield
    account.ec2.delete_security_group(GroupId=group["GroupId"])


@contextmanager
def _other_vpc(account: AppliedAccount) -> Iterator[str]:
    vpc = account.ec2.create_vpc(CidrBlock="10.77.0.0/16")["Vpc"]["VpcId"]
    yield vpc
    account.ec2.delete_vpc(VpcId=vpc)


@finds("N1", about="EC2NodeClass/default")
def two_security_groups_have_the_discovery_tag(
    account: AppliedAccount, cluster: AppliedCluster
) -> Iterator[None]:
    with _second_group(account, _node_group(account)["VpcId"]):
        yield


@finds("N9", about="EC2NodeClass/default")
def egress_of_nodes_is_revoked(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    group = _node_group(account)
    rules = {"GroupId": group["GroupId"], "IpPermissions": group["IpPermissionsEgress"]}
    account.ec2.revoke_security_group_egress(**rules)
    yield
    account.ec2.authorize_security_group_egress(**rules)


@finds("N9", about="EC2NodeClass/default")
def control_plane_does_not_accept_nodes(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    described = account.eks.describe_cluster(name=account.config.name)["cluster"]
    group_id = described["resourcesVpcConfig"]["clusterSecurityGroupId"]
    (group,) = account.ec2.describe_security_groups(GroupIds=[group_id])["SecurityGroups"]
    rules = {"GroupId": group_id, "IpPermissions": group["IpPermissions"]}
    account.ec2.revoke_security_group_ingress(**rules)
    yield
    account.ec2.authorize_security_group_ingress(**rules)


@finds("N1", "N10", about="EC2NodeClass/default")
def security_group_is_in_another_vpc(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    with _other_vpc(account) as vpc, _second_group(account, vpc):
        yield


def _subnets(account: AppliedAccount) -> list[str]:
    filters = [{"Name": "tag:karpenter.sh/discovery", "Values": [account.config.name]}]
    return [subnet["SubnetId"] for subnet in account.ec2.describe_subnets(Filters=filters)["Subnets"]]


@contextmanager
def _untagged(account: AppliedAccount) -> Iterator[None]:
    subnets = _subnets(account)
    tags = [{"Key": key, "Value": value} for key, value in _discovery(account).items()]
    account.ec2.delete_tags(Resources=subnets, Tags=tags)
    yield
    account.ec2.create_tags(Resources=subnets, Tags=tags)


@finds("N3", about="EC2NodeClass/default")
def discovery_tag_of_the_subnets_is_gone(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    with _untagged(account):
        yield


@finds("N10", "N8", "N7", about="EC2NodeClass/default")
def subnets_are_in_another_vpc(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    with _untagged(account), _other_vpc(account) as vpc:
        subnet = account.ec2.create_subnet(
            VpcId=vpc,
            CidrBlock="10.77.0.0/20",
            AvailabilityZone="us-east-1a",
            TagSpecifications=tagged("subnet", _discovery(account)),
        )["Subnet"]["SubnetId"]
        yield
        account.ec2.delete_subnet(SubnetId=subnet)


@finds("N8", "N7", about="vpc/")
def subnets_have_no_route_out(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    filters = [{"Name": "association.subnet-id", "Values": _subnets(account)}]
    removed = []
    for table in account.ec2.describe_route_tables(Filters=filters)["RouteTables"]:
        for route in table["Routes"]:
            if route.get("NatGatewayId"):
                key = {"RouteTableId": table["RouteTableId"], "DestinationCidrBlock": "0.0.0.0/0"}
                account.ec2.delete_route(**key)
                removed.append({**key, "NatGatewayId": route["NatGatewayId"]})
    assert removed
    yield
    for route in removed:
        account.ec2.create_route(**route)


# Kubernetes


@finds("K11", about="NodePool/default")
def instance_type_does_not_exist(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    bad = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.hugest"]}
    cluster.change(
        kinds.NODE_POOLS, "default", lambda obj: obj["spec"]["template"]["spec"]["requirements"].append(bad)
    )
    yield


@finds("P9", about="NodePool/default")
def nodepool_has_no_limits(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    cluster.change(kinds.NODE_POOLS, "default", lambda obj: obj["spec"].pop("limits"))
    yield


@finds("K16", about="NodePool/default")
def nodepool_refers_to_a_node_class_that_does_not_exist(
    account: AppliedAccount, cluster: AppliedCluster
) -> Iterator[None]:
    cluster.change(
        kinds.NODE_POOLS,
        "default",
        lambda obj: obj["spec"]["template"]["spec"]["nodeClassRef"].update(name="gone"),
    )
    yield


@finds("K17", about="Deployment/kube-system/dovetail")
def controller_is_scaled_to_zero(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    cluster.change(
        kinds.DEPLOYMENTS, CONTROLLER, lambda obj: obj["spec"].update(replicas=0), CONTROLLER_NAMESPACE
    )
    for number in (0, 1):
        cluster.api.delete(kinds.PODS, f"dovetail-{number}", CONTROLLER_NAMESPACE)
    yield


@finds("K17", about="Deployment/kube-system/dovetail")
def pods_of_the_controller_are_not_ready(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    for number in (0, 1):
        cluster.change(
            kinds.PODS,
            f"dovetail-{number}",
            lambda obj: obj["status"].update(conditions=[condition("Ready", "False")]),
            CONTROLLER_NAMESPACE,
        )
    yield


@finds("K18", about="EC2NodeClass/default")
def node_class_is_not_ready(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    conditions = [
        condition("AMIsReady", "False", reason="AMINotFound", message="AMISelector did not match any AMIs"),
        condition("Ready", "False", reason="UnhealthyDependents", message="AMIsReady=False"),
    ]
    cluster.change(kinds.EC2_NODE_CLASSES, "default", lambda obj: obj["status"].update(conditions=conditions))
    yield


@finds("K19", about="Deployment/kube-system/karpenter")
def karpenter_runs_beside_dovetail(account: AppliedAccount, cluster: AppliedCluster) -> Iterator[None]:
    cluster.put(kinds.DEPLOYMENTS, a_controller())
    cluster.put(kinds.PODS, a_pod("karpenter-0", "kube-system", "", {"app.kubernetes.io/name": "karpenter"}))
    yield


@finds("K20", about="Deployment/kube-system/aws-cluster-autoscaler")
def cluster_autoscaler_runs_beside_dovetail(
    account: AppliedAccount, cluster: AppliedCluster
) -> Iterator[None]:
    labels = {"app.kubernetes.io/name": "aws-cluster-autoscaler"}
    cluster.put(kinds.DEPLOYMENTS, a_deployment("aws-cluster-autoscaler", "kube-system", labels))
    yield


@finds("K21", "N2", about="Deployment/kube-system/dovetail")
def controller_is_set_up_for_another_cluster(
    account: AppliedAccount, cluster: AppliedCluster
) -> Iterator[None]:
    def rename(obj: Any) -> None:
        for variable in obj["spec"]["template"]["spec"]["containers"][0]["env"]:
            if variable["name"] == "CLUSTER_NAME":
                variable["value"] = "other"

    cluster.change(kinds.DEPLOYMENTS, CONTROLLER, rename, CONTROLLER_NAMESPACE)
    yield


def test_applied_cluster_has_no_findings_and_every_check_runs(applied: AppliedAccount) -> None:
    report = diagnose(applied, applied.cluster())

    assert report.findings == ()
    assert report.skipped == ()
    assert len(report.checked) == len(CHECKS)


@pytest.mark.parametrize(("plant", "codes", "about"), BROKEN)
def test_cluster_broken_in_one_place_has_findings_with_object_and_fix(
    plant: Callable[..., Any], codes: tuple[str, ...], about: str, applied: AppliedAccount
) -> None:
    cluster = applied.cluster()

    with plant(applied, cluster):
        report = diagnose(applied, cluster)

    findings = {finding.code: finding for finding in report.findings}
    assert set(findings) == set(codes)
    assert findings[codes[0]].about.startswith(about)
    assert all(finding.seen and finding.wrong and finding.fix for finding in report.findings)


def test_account_is_healthy_again_after_each_test(applied: AppliedAccount) -> None:
    assert diagnose(applied, applied.cluster()).findings == ()


@pytest.mark.slow
def test_applied_cluster_with_irsa_has_no_findings() -> None:
    with applied_account(healthy_config(identity="irsa")) as account:
        report = diagnose(account, account.cluster())

    assert report.findings == ()
    assert report.skipped == ()
