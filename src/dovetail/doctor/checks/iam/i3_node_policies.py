"""I3: the nodes' role lacks what nodes need."""

from collections.abc import Iterator
from typing import Final

from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import ROLE_ARN
from dovetail.doctor.facts import Facts, Part, Role
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.iam_policies import may
from dovetail.doctor.object_fields import at, class_called, name_of
from dovetail.ports.api_resources import EC2_NODE_CLASSES, SERVICE_ACCOUNTS

_CNI: Final = "AmazonEKS_CNI_Policy"
_WANTED: Final = {
    "AmazonEKSWorkerNodePolicy": (
        ("AmazonEKSWorkerNodeMinimalPolicy",),
        "ec2:DescribeInstances",
    ),
    _CNI: (("AmazonEKS_CNI_IPv6_Policy",), "ec2:AssignPrivateIpAddresses"),
    "AmazonEC2ContainerRegistryPullOnly": (
        (
            "AmazonEC2ContainerRegistryReadOnly",
            "AmazonEC2ContainerRegistryPowerUser",
            "AmazonEC2ContainerRegistryFullAccess",
        ),
        "ecr:BatchGetImage",
    ),
}
"""Policy → others that do as well, and an action that tells that one's own policy does."""


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out policies that are missing, and roles; the CNI may have a role of its own."""
    for name, role in sorted(facts.aws.node_roles.items()):
        if role is None:
            asked = at(class_called(facts, name), "spec") or {}
            called = asked.get("role") or asked.get("instanceProfile") or "nothing"
            yield Symptom(
                about=f"EC2NodeClass/{name}",
                seen=f"it names {called}, and IAM has no such role",
                wrong="no instance can be started with this class",
                fix=f"aws iam create-role --role-name {called} --assume-role-policy-document "
                '\'{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":'
                '{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}\'',
            )
    for role in {one.name: one for one in facts.aws.node_roles.values() if one}.values():
        for policy, (others, action) in _WANTED.items():
            if policy == _CNI and _cni_has_its_own(facts):
                continue
            if _has(role, (policy, *others), action):
                continue
            arn = f"arn:{facts.aws.partition}:iam::aws:policy/{policy}"
            yield Symptom(
                about=f"role/{role.name}",
                seen=f"attached: {', '.join(role.attached) or 'nothing'}",
                wrong=f"without {policy} nodes do not join, get no addresses or pull no images",
                fix=f"aws iam attach-role-policy --role-name {role.name} --policy-arn {arn}",
            )


def _has(role: Role, names: tuple[str, ...], action: str) -> bool:
    return any(one in role.attached for one in names) or may(role, action)


def _cni_has_its_own(facts: Facts) -> bool:
    accounts = [one for one in facts.of(SERVICE_ACCOUNTS) if name_of(one) == "aws-node"]
    return any(at(one, "metadata", "annotations", ROLE_ARN) for one in accounts) or any(
        one.get("serviceAccount") == "aws-node" for one in facts.aws.pod_identities
    )


CHECK = Check(
    code="I3",
    title="node role lacks worker, CNI or ECR policies",
    severity=Severity.BROKEN,
    how="policies attached to the role of each EC2NodeClass, and what its own documents allow",
    mend="attach AmazonEKSWorkerNodePolicy, AmazonEKS_CNI_Policy and "
    "AmazonEC2ContainerRegistryPullOnly",
    needs=(EC2_NODE_CLASSES, SERVICE_ACCOUNTS, Part.NODE_ROLES, Part.POD_IDENTITIES),
    find=find,
)
