"""Patches of objects that may be deleted meanwhile: a missing object needs none."""

from collections.abc import Mapping
from typing import Any

from dovetail.codec.patches.nodeclaims import status_patch
from dovetail.codec.patches.nodepools import nodepool_status_patch
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, Resource
from dovetail.ports.kube_client import KubeClient
from dovetail.ports.kube_errors import NotFound


async def patch_if_exists(
    kube: KubeClient,
    resource: Resource,
    name: str,
    patch: Mapping[str, Any],
    namespace: str = "",
    *,
    subresource: str = "",
) -> bool:
    """Apply a merge patch unless it is empty; return False if the object is gone."""
    if patch:
        try:
            await kube.patch(resource, name, patch, namespace, subresource=subresource)
        except NotFound:
            return False
    return True


async def write_claim_status(kube: KubeClient, before: NodeClaim, after: NodeClaim) -> bool:
    """Write changed status fields of a NodeClaim; return False if it is gone."""
    patch = status_patch(before, after)
    return await patch_if_exists(kube, NODE_CLAIMS, before.name, patch, subresource="status")


async def write_pool_status(kube: KubeClient, before: NodePool, after: NodePool) -> bool:
    """Write changed status fields of a NodePool; return False if it is gone."""
    patch = nodepool_status_patch(before, after)
    return await patch_if_exists(kube, NODE_POOLS, before.name, patch, subresource="status")


def annotations_patch(annotations: Mapping[str, str | None]) -> dict[str, Any]:
    """Return a patch that sets annotations; the value None removes one."""
    return {"metadata": {"annotations": annotations}} if annotations else {}
