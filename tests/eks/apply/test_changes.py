"""One field changed in the file: the fewest writes, and then nothing to do."""

from typing import Any

import pytest

from dovetail.eks.plan.planner import Verb
from dovetail.ports.api_resources import NODE_POOLS
from tests.support.clusters import a_cluster
from tests.support.moto.account import TestAccount

pytestmark = pytest.mark.slow

READING = ("Describe", "Get", "List", "GET ")
NETWORK = {"create": {"cidr": "10.0.0.0/16", "zones": 2}}
HOME = {"kind": "managed-node-group", "name": "home", "instanceTypes": ["m5.large"]}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "the Kubernetes version": (
        {"version": "1.32"},
        {"version": "1.33"},
        ["POST /clusters/dev/updates"],
    ),
    "who reaches the endpoint": (
        {},
        {"endpoint": {"public": True, "private": True, "publicCidrs": ["192.0.2.0/24"]}},
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
    "the version of an add-on": (
        {"addons": {"coredns": {"version": "v1.11.1-eksbuild.1"}}},
        {"addons": {"coredns": {"version": "v1.12.1-eksbuild.2"}}},
        ["POST /clusters/dev/addons/coredns/update"],
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_one_changed_field_is_written_once(account: TestAccount, what: str) -> None:
    before, after, expected = CASES[what]
    account.apply(a_cluster(vpc=NETWORK, **before))
    changed = a_cluster(vpc=NETWORK, **{**before, **after})
    account.moto.door.reset()

    run = account.apply(changed)

    assert {one.verb for one in run.done} == {Verb.CHANGE}
    writes = sorted(one for one in account.moto.door.calls if not one.startswith(READING))
    assert writes == expected
    assert account.plan(changed).steps == ()


def test_a_field_of_a_pool_is_changed_and_taken_out_again(account: TestAccount) -> None:
    plain = a_cluster(vpc=NETWORK, nodePools=[{"name": "default"}])
    limited = a_cluster(vpc=NETWORK, nodePools=[{"name": "default", "limits": {"cpu": 10}}])
    account.apply(plain)

    first = account.apply(limited)
    with_limits = _pools(account)
    second = account.apply(plain)

    assert [one.address for one in first.done] == ["kubernetes-object/NodePool/default"]
    assert with_limits["default"]["spec"]["limits"] == {"cpu": 10}
    assert [one.address for one in second.done] == ["kubernetes-object/NodePool/default"]
    assert "limits" not in _pools(account)["default"]["spec"]
    assert account.plan(plain).steps == ()


def test_a_pool_that_is_taken_out_of_the_file_goes(account: TestAccount) -> None:
    both = a_cluster(vpc=NETWORK, nodePools=[{"name": "one"}, {"name": "two"}])
    account.apply(both)

    account.apply(a_cluster(vpc=NETWORK, nodePools=[{"name": "one"}]))

    assert set(_pools(account)) == {"one"}


def test_a_rule_that_is_taken_out_of_the_file_goes_and_those_of_others_stay(
    account: TestAccount,
) -> None:
    opened = a_cluster(vpc=NETWORK, ingress=[{"protocol": "tcp", "ports": "443"}])
    closed = a_cluster(vpc=NETWORK)
    account.apply(opened)
    ec2 = account.client("ec2")
    groups = ec2.describe_security_groups(Filters=[{"Name": "group-name", "Values": ["dev-node"]}])
    group = groups["SecurityGroups"][0]["GroupId"]
    ec2.authorize_security_group_ingress(
        GroupId=group, IpProtocol="tcp", FromPort=9, ToPort=9, CidrIp="192.0.2.0/24"
    )

    account.apply(closed)

    told = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"]
    assert {one.get("FromPort") for one in told} & {9, 443} == {9}


def test_a_zone_more_makes_only_what_it_needs(account: TestAccount) -> None:
    account.apply(
        a_cluster(vpc={"create": {"cidr": "10.0.0.0/16", "zones": ["us-east-1a", "us-east-1b"]}})
    )
    zones = ["us-east-1a", "us-east-1b", "us-east-1c"]
    wider = a_cluster(vpc={"create": {"cidr": "10.0.0.0/16", "zones": zones}})

    planned = account.plan(wider)

    assert "eks-cluster/dev" not in planned.replaced()


def test_a_role_that_somebody_deleted_is_made_again_and_nothing_else(
    account: TestAccount,
) -> None:
    spec = account.prepared("existing-cluster")
    account.apply(spec)
    iam = account.client("iam")
    attached = iam.list_attached_role_policies(RoleName="platform-one-karpenter")
    for one in attached["AttachedPolicies"]:
        iam.detach_role_policy(RoleName="platform-one-karpenter", PolicyArn=one["PolicyArn"])
    iam.delete_role(RoleName="platform-one-karpenter")

    run = account.apply(spec)

    assert [one.id for one in run.done] == ["create iam-role/platform-one-karpenter"]


def test_what_was_changed_by_hand_is_put_right(account: TestAccount) -> None:
    spec = account.prepared("existing-cluster")
    account.apply(spec)
    arn = "arn:aws:iam::123456789012:policy/platform/platform-one-karpenter-Cluster"
    account.client("iam").create_policy_version(
        PolicyArn=arn,
        PolicyDocument='{"Version": "2012-10-17", "Statement": [{"Effect": "Allow",'
        ' "Action": "eks:*", "Resource": "*"}]}',
        SetAsDefault=True,
    )
    account.client("iam").delete_role_permissions_boundary(RoleName="platform-one-karpenter")
    account.client("events").disable_rule(Name="platform-one-spot")

    run = account.apply(spec)

    assert sorted(one.address for one in run.done) == [
        "event-rule/platform-one-spot",
        "iam-policy/platform-one-karpenter-Cluster",
        "iam-role/platform-one-karpenter",
    ]
    assert account.plan(spec).steps == ()


def _pools(account: TestAccount) -> dict[str, Any]:
    found = account.served.call(lambda: account.served.api.list(NODE_POOLS).items)
    return {one["metadata"]["name"]: one for one in found}
