"""IAM policy documents and ARNs; trust policies: the principals that assume a role."""

from collections.abc import Sequence
from typing import Any

from dovetail.eks.plan.references import aws_ref

Statement = dict[str, Any]
Document = dict[str, Any]
VERSION = "2012-10-17"


def document(*statements: Statement) -> Document:
    """Return a policy document with these statements."""
    return {"Version": VERSION, "Statement": list(statements)}


def allow(
    sid: str, actions: Sequence[str], resources: Sequence[str], condition: dict[str, Any] | None = None
) -> Statement:
    """Return a statement that allows actions on resources."""
    statement = {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": list(resources)}
    return {**statement, "Condition": condition} if condition else statement


def arn(service: str, resource: str, *, region: str | None = None, account: str | None = None) -> str:
    """Return an ARN, by default in this account and region."""
    region_part = aws_ref("region") if region is None else region
    account_part = aws_ref("account") if account is None else account
    return f"arn:{aws_ref('partition')}:{service}:{region_part}:{account_part}:{resource}"


def aws_managed_policy(name: str) -> str:
    """Return the ARN of an AWS managed policy."""
    return f"arn:{aws_ref('partition')}:iam::aws:policy/{name}"


def service_trust_policy(service: str, condition: dict[str, Any] | None = None) -> Document:
    """Return a policy that trusts an AWS service: ec2, eks, eks-fargate-pods."""
    # Of these principals, only EC2's has another suffix in China.
    suffix = aws_ref("dns-suffix") if service == "ec2" else "amazonaws.com"
    return _trust({"Service": f"{service}.{suffix}"}, ["sts:AssumeRole"], condition)


def pod_identity_trust_policy() -> Document:
    """Return a policy that trusts EKS Pod Identity, which tags its sessions."""
    return _trust({"Service": "pods.eks.amazonaws.com"}, ["sts:AssumeRole", "sts:TagSession"], None)


def service_account_trust_policy(*, issuer: str, namespace: str, name: str) -> Document:
    """Return a policy that trusts a service account, by the cluster's OIDC provider."""
    provider = f"arn:{aws_ref('partition')}:iam::{aws_ref('account')}:oidc-provider/{issuer}"
    condition = {
        "StringEquals": {
            f"{issuer}:aud": "sts.amazonaws.com",
            f"{issuer}:sub": f"system:serviceaccount:{namespace}:{name}",
        }
    }
    return _trust({"Federated": provider}, ["sts:AssumeRoleWithWebIdentity"], condition)


def _trust(principal: dict[str, str], actions: list[str], condition: dict[str, Any] | None) -> Document:
    statement: dict[str, Any] = {"Effect": "Allow", "Principal": principal, "Action": actions}
    if condition:
        statement["Condition"] = condition
    return {"Version": VERSION, "Statement": [statement]}
