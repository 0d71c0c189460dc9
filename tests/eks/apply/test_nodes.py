"""Spot role and ingress of node groups, applied, changed and destroyed."""

from typing import Any

import pytest

from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount

pytestmark = pytest.mark.slow

NETWORK = {"create": {"cidr": "10.0.0.0/16", "zones": 2}}
INGRESS = [{"protocol": "tcp", "ports": "443", "cidrs": ["192.0.2.0/24"]}]


def template_groups(account: TestAccount) -> list[str]:
    """Return the names of the security groups in the launch template of the controller's group."""
    ec2 = account.client("ec2")
    members = account.eks.seen()["dev"][1]
    template = members["node-groups"]["controller"]["launchTemplate"]
    version: Any = ec2.describe_launch_template_versions(
        LaunchTemplateId=template["id"], Versions=[template["version"]]
    )
    ids = version["LaunchTemplateVersions"][0]["LaunchTemplateData"].get("SecurityGroupIds", [])
    groups = ec2.describe_security_groups(GroupIds=ids)["SecurityGroups"] if ids else []
    return [group["GroupName"] for group in groups]


def test_ingress_reaches_node_groups_and_is_taken_away_again(account: TestAccount) -> None:
    before = account.inventory("us-east-1")
    plain, opened = a_cluster(vpc=NETWORK), a_cluster(vpc=NETWORK, ingress=INGRESS)
    account.apply(plain)

    account.apply(opened)
    while_open = template_groups(account)
    account.apply(plain)

    assert sorted(while_open) == ["dev-ingress", "eks-cluster-sg-dev"]
    assert template_groups(account) == []
    names = [
        group["GroupName"] for group in account.client("ec2").describe_security_groups()["SecurityGroups"]
    ]
    assert "dev-ingress" not in names
    assert account.plan(plain).steps == ()
    account.apply(opened)
    assert account.destroy(opened) == []
    assert account.inventory("us-east-1") == before


def test_spot_role_is_created_once_and_stays_in_the_account(account: TestAccount) -> None:
    spot = a_cluster(vpc=NETWORK, nodePools=[{"name": "default", "capacityTypes": ["spot"]}])

    result = account.apply(spot)

    created = "create service-linked-role/AWSServiceRoleForEC2Spot"
    assert created in [step.id for step in result.done]
    assert account.plan(spot).steps == ()
    assert account.plan(a_cluster(vpc=NETWORK)).steps[0].address == "kubernetes-object/NodePool/default"
    assert account.destroy(spot) == []
    role = account.client("iam").get_role(RoleName="AWSServiceRoleForEC2Spot")["Role"]
    assert role["Path"] == "/aws-service-role/spot.amazonaws.com/"
    assert created not in [step.id for step in account.plan(spot).steps]
