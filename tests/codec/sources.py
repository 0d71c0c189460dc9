"""Manifests and dumps that tests of decoders share."""

from textwrap import dedent
from typing import Any

import msgspec

from dovetail.codec.inputs.cluster_inputs import Inputs, read_inputs
from dovetail.errors import InvalidInputError, ValidationError

POOL = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
"""


def read_manifest(text: str, *, cluster: str = "", **options: Any) -> Inputs:
    """Read one manifest, and one dump if there is any."""
    manifests = [("m.yaml", dedent(text).encode())] if text else []
    dumps = [("d.yaml", dedent(cluster).encode())] if cluster else []
    return read_inputs(manifests, dumps, **options)


def validation_errors(text: str, file: str = "m.yaml") -> tuple[ValidationError, ...]:
    """Return the errors of one manifest."""
    try:
        read_inputs([(file, dedent(text).encode())])
    except InvalidInputError as error:
        return error.errors
    return ()


def error_messages(text: str) -> list[str]:
    """Return field and message of each error."""
    return [f"{error.field}: {error.message}" for error in validation_errors(text)]


def dump(*objects: dict[str, Any]) -> str:
    """Write objects as ``kubectl get … -o json`` does."""
    whole = {"apiVersion": "v1", "items": list(objects), "kind": "List"}
    return msgspec.json.format(msgspec.json.encode(whole), indent=4).decode()


def a_pool(requirement: str) -> str:
    """Return a NodePool with one more requirement."""
    return f"{POOL.strip()}\n        - {requirement}\n"


def a_pod(name: str = "web", **parts: Any) -> dict[str, Any]:
    """Return a raw pod, with more of ``spec``, ``status`` and ``metadata``."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": name, **parts.get("metadata", {})},
        "spec": {"containers": [{"name": "main"}], **parts.get("spec", {})},
        "status": {"phase": "Pending", **parts.get("status", {})},
    }


def owned_by(kind: str, name: str, **labels: str) -> dict[str, Any]:
    """Return the metadata of a pod of a workload."""
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "controller": True}
    return {"ownerReferences": [owner], "labels": labels}


def a_node(name: str, **parts: Any) -> dict[str, Any]:
    """Return a raw node with four cores."""
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "58"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, **parts.get("metadata", {})},
        "spec": {"providerID": f"aws:///us-east-1a/i-{name}", **parts.get("spec", {})},
        "status": {"capacity": amounts, "allocatable": amounts, **parts.get("status", {})},
    }


def a_claim(name: str, node: str, **parts: Any) -> dict[str, Any]:
    """Return a raw NodeClaim that was launched for ``node``."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": name,
            "uid": name,
            "labels": {"karpenter.sh/nodepool": "general"},
            **parts.get("metadata", {}),
        },
        "spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "d"},
            **parts.get("spec", {}),
        },
        "status": {"providerID": f"aws:///us-east-1a/i-{node}", **parts.get("status", {})},
    }


def a_deployment(replicas: int, cpu: str = "500m", name: str = "web") -> str:
    """Return a Deployment in namespace shop."""
    return f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: shop}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers:
        - name: main
          resources: {{requests: {{cpu: {cpu}}}}}
"""
