"""Who may take on a role."""

from typing import Any

from dovetail.eks.iam.documents import VERSION, Document
from dovetail.eks.plan.references import aws


def trusted_service(service: str, condition: dict[str, Any] | None = None) -> Document:
    """Trust an AWS service: ec2, eks, eks-fargate-pods."""
    # EC2's principal is the one that has another ending in China.
    suffix = aws("dns-suffix") if service == "ec2" else "amazonaws.com"
    return _trust({"Service": f"{service}.{suffix}"}, ["sts:AssumeRole"], condition)


def trusted_pod_identity() -> Document:
    """Trust EKS Pod Identity, which marks the session with cluster and service account."""
    return _trust({"Service": "pods.eks.amazonaws.com"}, ["sts:AssumeRole", "sts:TagSession"], None)


def trusted_service_account(*, issuer: str, namespace: str, name: str) -> Document:
    """Trust one service account, by a token of the cluster's OIDC provider."""
    provider = f"arn:{aws('partition')}:iam::{aws('account')}:oidc-provider/{issuer}"
    condition = {
        "StringEquals": {
            f"{issuer}:aud": "sts.amazonaws.com",
            f"{issuer}:sub": f"system:serviceaccount:{namespace}:{name}",
        }
    }
    return _trust({"Federated": provider}, ["sts:AssumeRoleWithWebIdentity"], condition)


def _trust(
    principal: dict[str, str], actions: list[str], condition: dict[str, Any] | None
) -> Document:
    statement: dict[str, Any] = {"Effect": "Allow", "Principal": principal, "Action": actions}
    if condition:
        statement["Condition"] = condition
    return {"Version": VERSION, "Statement": [statement]}
