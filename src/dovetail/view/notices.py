"""Notices: what the view cannot show, and why."""

from collections.abc import Mapping
from typing import Final

from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import PODS, Resource
from dovetail.state.cluster.cache import ClusterCache
from dovetail.view.document import Notice

NO_NODEPOOLS: Final = "no-nodepools"
NO_NODECLAIMS: Final = "no-nodeclaims"
KARPENTER: Final = "karpenter"
NO_NODES: Final = "no-nodes"
_NAME_LABEL: Final = "app.kubernetes.io/name"
_ANNOTATIONS: Final = "dovetail.sh/"


def find_notices(cache: ClusterCache, *, autoscaler: str) -> dict[str, Notice]:
    """Return what can be said about any cluster, by code."""
    notices = []
    nodes = cache.nodes()
    if not cache.pools():
        notices.append(
            Notice(
                code=NO_NODEPOOLS,
                message="the cluster has no NodePools: nodes are shown with their pods and list prices, "
                "without keep reasons and savings",
                remedy="create a NodePool and an EC2NodeClass, or pass a dump that has them",
            )
        )
    elif not cache.claims() and any(label_keys.NODEPOOL in node.labels for node in nodes):
        notices.append(
            Notice(
                code=NO_NODECLAIMS,
                message="nodes belong to NodePools, but there are no NodeClaims: states and keep reasons "
                "of these nodes are incomplete",
                remedy="make a dump with NodeClaims: dovetail dump -o cluster.json",
            )
        )
    if not nodes and not cache.claims():
        notices.append(Notice(code=NO_NODES, message="the cluster has no nodes"))
    if autoscaler == "karpenter":
        notices.append(
            Notice(
                code=KARPENTER,
                message="Karpenter manages this cluster: keep reasons and target are what Dovetail would "
                "decide, and there is no savings ledger",
                remedy="dovetail migrate check shows what a change to Dovetail takes",
            )
        )
    return {notice.code: notice for notice in notices}


def forbidden(resource: Resource) -> Notice:
    """Return the notice that a kind may not be listed."""
    return Notice(
        code=f"forbidden-{resource.plural}",
        message=f"no rights to list {resource.qualified_name}: {_MISSING.get(resource.plural, 'not shown')}",
        remedy=f"grant list and watch on {resource.qualified_name}, for example with the ClusterRole view",
    )


def not_served(resource: Resource) -> Notice:
    """Return the notice that a kind does not exist in the cluster."""
    return Notice(
        code=f"not-served-{resource.plural}",
        message=f"the API server does not serve {resource.qualified_name} ({resource.version})",
        remedy="install the CustomResourceDefinitions: dovetail crds | kubectl apply -f -",
    )


_MISSING: Final[Mapping[str, str]] = {
    "nodes": "no nodes are shown",
    "pods": "nodes are shown as if they were empty, and keep reasons are wrong",
    "nodeclaims": "nothing is known about nodes in flight and decisions",
    "nodepools": "no NodePools are shown",
    "poddisruptionbudgets": "keep reasons do not consider PodDisruptionBudgets",
}


def find_autoscaler(cache: ClusterCache) -> str:
    """Return the autoscaler that manages the cluster; empty: not known.

    Dovetail leaves annotations on its NodeClaims. The sandbox has a pod with
    Karpenter's labels, so that these alone say nothing.
    """
    claims = cache.claims()
    if any(key.startswith(_ANNOTATIONS) for claim in claims for key in claim.annotations):
        return "dovetail"
    names = {pod.labels.get(_NAME_LABEL, "") for pod in cache.stores[PODS].values() if not pod.is_terminal}
    if "dovetail" in names:
        return "dovetail"
    return "karpenter" if claims and "karpenter" in names else ""
