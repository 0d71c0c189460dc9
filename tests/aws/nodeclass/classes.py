"""Node classes as they come from the API server, and what is said of them."""

from typing import Any

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.nodeclasses import decode_nodeclass
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.ports.cloudprovider import NodeClassStatus

STATUS: dict[str, Any] = {
    "subnets": [{"id": "subnet-1", "zone": "a", "zoneID": "az1"}],
    "securityGroups": [{"id": "sg-1", "name": "nodes"}],
    "amis": [
        {
            "id": "ami-1",
            "name": "bottlerocket-aws-k8s-1.34-x86_64-v1.45.0-0a1b",
            "requirements": [
                {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "DoesNotExist"},
            ],
        }
    ],
    "instanceProfile": "demo_1",
}


def a_class(name: str = "default", *, uid: str = "uid-1", **spec: Any) -> dict[str, Any]:
    """A class of the family Custom, with a role; None takes a field away."""
    usual: dict[str, Any] = {
        "amiFamily": "Custom",
        "amiSelectorTerms": [{"id": "ami-mine"}],
        "subnetSelectorTerms": [{"tags": {"team": "a"}}],
        "securityGroupSelectorTerms": [{"tags": {"team": "a"}}],
        "role": "nodes",
    }
    whole = {key: entry for key, entry in {**usual, **spec}.items() if entry is not None}
    return {"metadata": {"name": name, "uid": uid, "generation": 1}, "spec": whole}


def resolved_class(family: str = "AL2023", *, status: dict[str, Any] = STATUS, **spec: Any) -> EC2NodeClass:
    """A class as decisions see it, after it was looked up."""
    raw = {
        "metadata": {"name": "default", "uid": "uid-1"},
        "spec": {"amiFamily": family, "role": "nodes", **spec},
        "status": status,
    }
    return decode_nodeclass(Field(raw, DecodeContext(strict=False)))


def annotated(node_class: dict[str, Any], **annotations: str) -> dict[str, Any]:
    return {**node_class, "metadata": {**node_class["metadata"], "annotations": annotations}}


def reasons(result: NodeClassStatus) -> dict[str, str]:
    """Return condition → reason of conditions that are not True."""
    return {kind: reason for kind, (reason, _) in result.false_conditions.items()}


def message(result: NodeClassStatus, kind: str) -> str:
    """Return the message of a condition that is False or Unknown."""
    return {**result.false_conditions, **result.unknown_conditions}[kind][1]
