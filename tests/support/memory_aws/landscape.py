"""Landscape of an account before Dovetail: a network, roles, policies, perhaps a cluster."""

import json
from typing import Any, Final

TRUST: Final = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": ["ec2.amazonaws.com", "eks.amazonaws.com"]},
            "Action": "sts:AssumeRole",
        }
    ],
}
_ALLOW: Final = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}


def create_landscape(client: Any, *, with_cluster: bool) -> dict[str, str]:
    """Create what files refer to; return ids by placeholder.

    ``client`` returns the client of a service.
    """
    ec2, iam = client("ec2"), client("iam")
    vpc = ec2.create_vpc(CidrBlock="10.200.0.0/16")["Vpc"]["VpcId"]
    names = {"$vpc": vpc}
    for number, letter in enumerate("abcd"):
        tags = {
            "tier": "private" if letter != "d" else "control",
            "zone-set": "small" if number < 2 else "all",
        }
        subnet = ec2.create_subnet(
            VpcId=vpc,
            CidrBlock=f"10.200.{number}.0/24",
            AvailabilityZone=f"us-east-1{letter}",
            TagSpecifications=[_tags("subnet", tags)],
        )
        names[f"$subnet-{letter}"] = subnet["Subnet"]["SubnetId"]
    for letter, purpose in (("a", "nodes"), ("b", "other")):
        group = ec2.create_security_group(
            GroupName=f"given-{letter}",
            Description="given",
            VpcId=vpc,
            TagSpecifications=[_tags("security-group", {"purpose": purpose})],
        )
        names[f"$group-{letter}"] = group["GroupId"]
    for name in ("Developers", "Viewers", "Workers", "Clusters"):
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST))
    for name in ("boundary", "extra"):
        iam.create_policy(PolicyName=name, PolicyDocument=json.dumps(_ALLOW))
    if with_cluster:
        _create_cluster(client, names)
    return names


def _create_cluster(client: Any, names: dict[str, str]) -> None:
    eks = client("eks")
    eks.create_cluster(
        name="dev",
        version="1.33",
        roleArn="arn:aws:iam::123456789012:role/Clusters",
        resourcesVpcConfig={"subnetIds": [names["$subnet-a"], names["$subnet-b"]]},
        accessConfig={"authenticationMode": "API_AND_CONFIG_MAP"},
    )
    for _ in range(2):
        eks.describe_cluster(name="dev")
    eks.create_addon(clusterName="dev", addonName="eks-pod-identity-agent", resolveConflicts="NONE")
    for _ in range(2):
        eks.describe_addon(clusterName="dev", addonName="eks-pod-identity-agent")


def _tags(kind: str, tags: dict[str, str]) -> dict[str, Any]:
    return {"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
