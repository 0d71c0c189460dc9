"""Updates: a changed field takes the fewest writes, and the next plan is empty."""

from typing import Any

import pytest

from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.plan.planner import Action
from dovetail.eks.plan.resource import FILE_TAGS_TAG
from dovetail.eks.plan.resource_kinds import KINDS
from dovetail.eks.session import ClusterSession
from dovetail.ports.api_resources import NAMESPACES, NODE_POOLS, SECRETS
from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount

pytestmark = pytest.mark.slow

READ_PREFIXES = ("Describe", "Get", "List", "GET ")
NETWORK = {"create": {"cidr": "10.0.0.0/16", "zones": 2}}
HOME = {"kind": "managed-node-group", "name": "home", "instanceTypes": ["m5.large"]}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "access to the endpoint": (
        {},
        {"endpoint": {"public": True, "private": True, "publicCidrs": ["192.0.2.0/24"]}},
        ["POST /clusters/dev/update-config"],
    ),
    "upgrades at the end of standard support": (
        {},
        {"support": "standard"},
        ["POST /clusters/dev/update-config"],
    ),
    "the size of a node group": (
        {"home": HOME},
        {"home": {**HOME, "max": 9}},
        ["POST /clusters/dev/node-groups/home/update-config"],
    ),
    "the disk of a node group": (
        {"home": HOME},
        {"home": {**HOME, "diskGib": 77}},
        [
            "CreateLaunchTemplateVersion",
            "ModifyLaunchTemplate",
            "POST /clusters/dev/node-groups/home/update-version",
        ],
    ),
    "the value of a taint": (
        {"home": {**HOME, "taints": [{"key": "team", "value": "a"}]}},
        {"home": {**HOME, "taints": [{"key": "team", "value": "b"}]}},
        ["POST /clusters/dev/node-groups/home/update-config"],
    ),
    "the version of an add-on": (
        {"addons": {"coredns": {"version": "v1.11.1-eksbuild.1"}}},
        {"addons": {"coredns": {"version": "v1.12.1-eksbuild.2"}}},
        ["POST /clusters/dev/addons/coredns/update"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_changed_field_is_written_once(account: TestAccount, case: str) -> None:
    before, after, expected = CASES[case]
    account.apply(a_cluster(vpc=NETWORK, **before))
    changed = a_cluster(vpc=NETWORK, **{**before, **after})
    account.moto.middleware.reset()

    result = account.apply(changed)

    assert {step.action for step in result.done} == {Action.UPDATE}
    writes = sorted(call for call in account.moto.middleware.calls if not call.startswith(READ_PREFIXES))
    assert writes == expected
    assert account.plan(changed).steps == ()


def test_nodepool_field_is_updated_and_removed(account: TestAccount) -> None:
    plain = a_cluster(vpc=NETWORK, nodePools=[{"name": "default"}])
    limited = a_cluster(vpc=NETWORK, nodePools=[{"name": "default", "limits": {"cpu": 10}}])
    account.apply(plain)

    first = account.apply(limited)
    with_limits = _pools(account)
    second = account.apply(plain)

    assert [step.address for step in first.done] == ["kubernetes-object/NodePool/default"]
    assert with_limits["default"]["spec"]["limits"] == {"cpu": 10}
    assert [step.address for step in second.done] == ["kubernetes-object/NodePool/default"]
    assert "limits" not in _pools(account)["default"]["spec"]
    assert account.plan(plain).steps == ()


def test_nodepool_removed_from_the_file_is_deleted(account: TestAccount) -> None:
    both = a_cluster(vpc=NETWORK, nodePools=[{"name": "one"}, {"name": "two"}])
    account.apply(both)

    account.apply(a_cluster(vpc=NETWORK, nodePools=[{"name": "one"}]))

    assert set(_pools(account)) == {"one"}


def test_ingress_rule_removed_from_the_file_is_deleted_and_foreign_rules_are_kept(
    account: TestAccount,
) -> None:
    with_rule = a_cluster(vpc=NETWORK, ingress=[{"protocol": "tcp", "ports": "443"}])
    without_rule = a_cluster(vpc=NETWORK)
    account.apply(with_rule)
    ec2 = account.client("ec2")
    groups = ec2.describe_security_groups(Filters=[{"Name": "group-name", "Values": ["dev-node"]}])
    group = groups["SecurityGroups"][0]["GroupId"]
    ec2.authorize_security_group_ingress(
        GroupId=group, IpProtocol="tcp", FromPort=9, ToPort=9, CidrIp="192.0.2.0/24"
    )

    account.apply(without_rule)

    permissions = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"]
    assert {permission.get("FromPort") for permission in permissions} & {9, 443} == {9}


def test_tag_removed_from_the_file_is_deleted_and_foreign_tags_are_kept(account: TestAccount) -> None:
    tags = {"team": "nodes", "cost-center": "7"}
    account.apply(a_cluster(vpc=NETWORK, nodeSecurityGroup={"tags": tags}))
    group = _node_security_group(account)
    ec2 = account.client("ec2")
    ec2.create_tags(Resources=[group["GroupId"]], Tags=[{"Key": "scanned", "Value": "yes"}])
    with_one = a_cluster(vpc=NETWORK, nodeSecurityGroup={"tags": {"team": "nodes"}})
    without = a_cluster(vpc=NETWORK)

    removed_one = account.apply(with_one)
    after_one = _tags(_node_security_group(account))
    account.apply(without)
    after_all = _tags(_node_security_group(account))

    assert tags.items() <= _tags(group).items()
    assert [step.id for step in removed_one.done] == ["update security-group/dev-node"]
    assert (after_one.get("team"), after_one.get("cost-center")) == ("nodes", None)
    assert set(_tags(group)) - set(after_all) == {*tags, FILE_TAGS_TAG}
    assert after_all["scanned"] == "yes"
    assert account.plan(without).steps == ()


def test_access_policy_removed_from_the_file_is_removed(account: TestAccount) -> None:
    role = "arn:aws:iam::123456789012:role/developers"
    entry = {"roleArn": role, "policies": ["AmazonEKSEditPolicy"], "namespaces": ["shop"]}
    account.apply(a_cluster(vpc=NETWORK, access={"roles": [entry]}))
    view = a_cluster(vpc=NETWORK, access={"roles": [{**entry, "policies": ["AmazonEKSViewPolicy"]}]})
    none = a_cluster(vpc=NETWORK, access={"roles": [{"roleArn": role}]})

    def policies() -> dict[str, dict[str, Any]]:
        eks = account.client("eks")
        response = eks.list_associated_access_policies(clusterName="dev", principalArn=role)
        associated = response["associatedAccessPolicies"]
        return {policy["policyArn"].rpartition("/")[2]: policy["accessScope"] for policy in associated}

    changed = account.apply(view)
    with_view = policies()
    account.apply(none)

    assert [step.id for step in changed.done] == ["update eks-access-entry/123456789012-role-developers"]
    assert with_view == {"AmazonEKSViewPolicy": {"type": "namespace", "namespaces": ["shop"]}}
    assert policies() == {}
    assert account.plan(none).steps == ()


def _node_security_group(account: TestAccount) -> dict[str, Any]:
    filters = [{"Name": "group-name", "Values": ["dev-node"]}]
    groups = account.client("ec2").describe_security_groups(Filters=filters)["SecurityGroups"]
    return dict(groups[0])


def _tags(raw: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in raw["Tags"]}


def test_additional_zone_does_not_replace_the_cluster(account: TestAccount) -> None:
    account.apply(a_cluster(vpc={"create": {"cidr": "10.0.0.0/16", "zones": ["us-east-1a", "us-east-1b"]}}))
    zones = ["us-east-1a", "us-east-1b", "us-east-1c"]
    with_three_zones = a_cluster(vpc={"create": {"cidr": "10.0.0.0/16", "zones": zones}})

    plan = account.plan(with_three_zones)

    assert "eks-cluster/dev" not in plan.replaced_addresses()


def test_deleted_role_is_created_again_and_nothing_else(account: TestAccount) -> None:
    config = account.prepared("existing-cluster")
    account.apply(config)
    iam = account.client("iam")
    attached = iam.list_attached_role_policies(RoleName="platform-one-us-east-1-karpenter")
    for policy in attached["AttachedPolicies"]:
        iam.detach_role_policy(RoleName="platform-one-us-east-1-karpenter", PolicyArn=policy["PolicyArn"])
    iam.delete_role(RoleName="platform-one-us-east-1-karpenter")

    result = account.apply(config)

    assert [step.id for step in result.done] == ["create iam-role/platform-one-us-east-1-karpenter"]


def test_manual_changes_are_reverted(account: TestAccount) -> None:
    config = account.prepared("existing-cluster")
    account.apply(config)
    arn = "arn:aws:iam::123456789012:policy/platform/platform-one-us-east-1-karpenter-Cluster"
    account.client("iam").create_policy_version(
        PolicyArn=arn,
        PolicyDocument='{"Version": "2012-10-17", "Statement": [{"Effect": "Allow",'
        ' "Action": "eks:*", "Resource": "*"}]}',
        SetAsDefault=True,
    )
    account.client("iam").delete_role_permissions_boundary(RoleName="platform-one-us-east-1-karpenter")
    account.client("events").disable_rule(Name="platform-one-spot")

    result = account.apply(config)

    assert sorted(step.address for step in result.done) == [
        "event-rule/platform-one-spot",
        "iam-policy/platform-one-us-east-1-karpenter-Cluster",
        "iam-role/platform-one-us-east-1-karpenter",
    ]
    assert account.plan(config).steps == ()


def _pools(account: TestAccount) -> dict[str, Any]:
    pools = account.served.call(lambda: account.served.api.list(NODE_POOLS).items)
    return {pool["metadata"]["name"]: pool for pool in pools}


ANY_POLICY = "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"
REMOVALS: dict[str, tuple[dict[str, Any], str]] = {
    "permissions boundary": ({"iam": {"permissionsBoundary": ANY_POLICY}}, "iam-role/dev-us-east-1-node"),
    "update configuration": ({"home": {**HOME, "maxUnavailablePercentage": 33}}, "eks-node-group/home"),
    "values of an add-on": ({"addons": {"coredns": {"values": {"replicaCount": 3}}}}, "eks-addon/coredns"),
    "object": (
        {
            "objects": [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "extra", "namespace": "default"},
                    "data": {"a": "b"},
                }
            ]
        },
        "kubernetes-object/ConfigMap/default/extra",
    ),
    "service account": (
        {"serviceAccounts": [{"name": "reports", "policies": [ANY_POLICY]}]},
        "kubernetes-object/ServiceAccount/default/reports",
    ),
}


@pytest.mark.parametrize("case", REMOVALS)
def test_what_is_removed_from_the_file_is_removed_from_the_cluster(account: TestAccount, case: str) -> None:
    fields, address = REMOVALS[case]
    account.apply(a_cluster(vpc=NETWORK, **{"home": HOME, **fields}))
    without = a_cluster(vpc=NETWORK, home=HOME)

    result = account.apply(without)

    assert address in {step.address for step in result.done}
    assert account.plan(without).steps == ()


def test_tags_removed_from_the_file_are_removed_and_foreign_tags_are_kept(account: TestAccount) -> None:
    fields: dict[str, Any] = {"vpc": NETWORK, "logging": {"types": ["api"]}, "identity": "irsa"}
    account.apply(a_cluster(**fields, tags={"team": "web", "cost": "42"}))
    ec2 = account.client("ec2")
    (network,) = [vpc for vpc in ec2.describe_vpcs()["Vpcs"] if not vpc["IsDefault"]]
    ec2.create_tags(Resources=[network["VpcId"]], Tags=[{"Key": "backup", "Value": "no"}])
    one_tag, no_tags = a_cluster(**fields, tags={"team": "ops"}), a_cluster(**fields)

    account.apply(one_tag)
    with_one = _observed_tags(account, one_tag)
    account.apply(no_tags)
    without = _observed_tags(account, no_tags)

    assert [address for address, tags in with_one.items() if tags and tags.get("team") != "ops"] == []
    assert [address for address, tags in with_one.items() if "cost" in tags] == []
    assert [address for address, tags in without.items() if {"team", "dovetail.sh/tags"} & set(tags)] == []
    assert without["vpc/main"]["backup"] == "no"
    assert account.plan(no_tags).steps == ()


def _observed_tags(account: TestAccount, config: ClusterConfig) -> dict[str, dict[str, str]]:
    async def observe(session: ClusterSession) -> dict[str, dict[str, str]]:
        observed = await session.observe()
        return {
            address: dict(resource.tags)
            for address, resource in observed.resources.items()
            if KINDS[resource.kind].taggable
        }

    return account.run(config, observe, may_write=False)


def test_namespace_of_a_service_account_is_deleted_with_it_unless_others_use_it(account: TestAccount) -> None:
    accounts = [{"name": "reports", "namespace": name, "policies": [ANY_POLICY]} for name in ("batch", "web")]
    account.apply(a_cluster(vpc=NETWORK, serviceAccounts=accounts))
    secret = {"metadata": {"name": "password"}, "type": "Opaque", "data": {}}
    account.served.call(lambda: account.served.api.create(SECRETS, secret, "web"))
    without = a_cluster(vpc=NETWORK)

    result = account.apply(without)

    deleted = [step.address for step in result.done if step.kind == "kubernetes-object"]
    assert deleted == [
        "kubernetes-object/ServiceAccount/batch/reports",
        "kubernetes-object/ServiceAccount/web/reports",
        "kubernetes-object/Namespace/batch",
    ]
    namespaces = account.served.call(lambda: account.served.api.list(NAMESPACES).items)
    assert {"batch", "web"} & {namespace["metadata"]["name"] for namespace in namespaces} == {"web"}
    assert account.plan(without).steps == ()
