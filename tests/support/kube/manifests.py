"""Kubernetes objects as JSON, as users, kubelets and schedulers write them."""

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.codec.karpenter.nodeclaims import encode_nodeclaim
from dovetail.codec.karpenter.nodepool_encoding import encode_nodepool
from dovetail.codec.kube.requirements import encode_taint
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodeClassRef, NodePool
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import UNREGISTERED_TAINT, Taint

FOREIGN_NODE_CLASS = NodeClassRef("example.com", "OtherNodeClass", "default")
_SIZE = {"cpu": "4", "memory": "16Gi", "pods": "110"}


def claim(
    name: str = "claim",
    *,
    labels: Mapping[str, str] | None = None,
    pool: str = "default",
    requests: Mapping[str, str | int] | None = None,
    finalizers: Sequence[str] = (),
    owners: Sequence[Mapping[str, Any]] = (),
    **fields: Any,
) -> dict[str, Any]:
    """Return a NodeClaim; further keywords are fields of ``model.karpenter.nodeclaim.NodeClaim``."""
    claim_labels = {label_keys.NODEPOOL: pool, label_keys.EC2_NODE_CLASS: "default", **(labels or {})}
    claim = encode_nodeclaim(
        NodeClaim(
            name=name,
            labels=FrozenDict({key: value for key, value in claim_labels.items() if value}),
            requests=Resources.parse(requests or {}),
            **fields,
        )
    )
    if finalizers:
        claim["metadata"]["finalizers"] = list(finalizers)
    if owners:
        claim["metadata"]["ownerReferences"] = [dict(owner) for owner in owners]
    return claim


def node(
    name: str = "node",
    *,
    provider_id: str = "",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (UNREGISTERED_TAINT,),
    ready: bool = True,
    size: Mapping[str, str] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """Return a Node as its kubelet registers it."""
    return {
        "metadata": {"name": name, "labels": dict(labels or {}), **metadata},
        "spec": {"providerID": provider_id, "taints": [encode_taint(taint) for taint in taints]},
        "status": {
            "capacity": dict(size or _SIZE),
            "allocatable": dict(size or _SIZE),
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def pool(name: str = "default", **fields: Any) -> dict[str, Any]:
    """Return a NodePool; further keywords are fields of ``model.karpenter.nodepool.NodePool``."""
    return encode_nodepool(NodePool(name=name, **fields))


def node_class(name: str = "default", *, ready: bool | None = True, **spec: Any) -> dict[str, Any]:
    """Return an EC2NodeClass; with ``ready`` None it has no status yet."""
    node_class: dict[str, Any] = {
        "metadata": {"name": name},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"team": "a"}}],
            "securityGroupSelectorTerms": [{"tags": {"team": "a"}}],
            "role": "nodes",
            **spec,
        },
    }
    if ready is not None:
        status = "True" if ready else "False"
        node_class["status"] = {"conditions": [{"type": "Ready", "status": status, "reason": "Ready"}]}
    return node_class


def pod(
    name: str = "pod",
    *,
    node: str = "node",
    owner: Mapping[str, Any] | None = None,
    phase: str = "Running",
    **spec: Any,
) -> dict[str, Any]:
    """Return a pod bound to a node, or pending if ``node`` is empty."""
    meta: dict[str, Any] = {"name": name, "namespace": "default"}
    if owner is not None:
        meta["ownerReferences"] = [dict(owner)]
    where = {"nodeName": node} if node else {}
    return {
        "metadata": meta,
        "spec": {"containers": [{"name": "main", "image": "app:1"}], **where, **spec},
        "status": {"phase": phase},
    }


def owner(kind: str, name: str, *, uid: str, **more: Any) -> dict[str, Any]:
    """Return an owner reference."""
    versions = {"NodePool": "karpenter.sh/v1", "NodeClaim": "karpenter.sh/v1", "Node": "v1"}
    version = versions.get(kind, "apps/v1")
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, **more}
