"""Kubernetes objects as users, kubelets and schedulers write them."""

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.codec.karpenter.nodeclaims import encode_node_claim
from dovetail.codec.karpenter.nodepool_encoding import encode_node_pool
from dovetail.codec.kube.requirements import show_taint
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodeClassRef, NodePool
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import UNREGISTERED, Taint

SOMEBODY_ELSES = NodeClassRef("example.com", "OtherNodeClass", "default")
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
    """A NodeClaim; further keywords are fields of ``model.karpenter.nodeclaim.NodeClaim``."""
    known = {label_keys.NODEPOOL: pool, label_keys.EC2_NODE_CLASS: "default", **(labels or {})}
    made = encode_node_claim(
        NodeClaim(
            name=name,
            labels=FrozenDict({key: value for key, value in known.items() if value}),
            requests=Resources.parse(requests or {}),
            **fields,
        )
    )
    if finalizers:
        made["metadata"]["finalizers"] = list(finalizers)
    if owners:
        made["metadata"]["ownerReferences"] = [dict(one) for one in owners]
    return made


def node(
    name: str = "node",
    *,
    provider_id: str = "",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (UNREGISTERED,),
    ready: bool = True,
    size: Mapping[str, str] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """A Node as its kubelet registers it."""
    return {
        "metadata": {"name": name, "labels": dict(labels or {}), **metadata},
        "spec": {"providerID": provider_id, "taints": [show_taint(one) for one in taints]},
        "status": {
            "capacity": dict(size or _SIZE),
            "allocatable": dict(size or _SIZE),
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def pool(name: str = "default", **fields: Any) -> dict[str, Any]:
    """A NodePool; further keywords are fields of ``model.karpenter.nodepool.NodePool``."""
    return encode_node_pool(NodePool(name=name, **fields))


def node_class(name: str = "default", *, ready: bool | None = True, **spec: Any) -> dict[str, Any]:
    """An EC2NodeClass; ``ready`` None for one that nobody has looked at."""
    made: dict[str, Any] = {
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
        made["status"] = {"conditions": [{"type": "Ready", "status": status, "reason": "Ready"}]}
    return made


def pod(
    name: str = "pod",
    *,
    node: str = "node",
    owner: Mapping[str, Any] | None = None,
    phase: str = "Running",
    **spec: Any,
) -> dict[str, Any]:
    """A pod bound to a node, or waiting when ``node`` is empty."""
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
    """An owner reference."""
    versions = {"NodePool": "karpenter.sh/v1", "NodeClaim": "karpenter.sh/v1", "Node": "v1"}
    version = versions.get(kind, "apps/v1")
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, **more}
