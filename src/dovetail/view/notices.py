"""Notices: what the view cannot show, and why."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from dovetail.core.cost.node_groups import find_other_cloud
from dovetail.model import labels as label_keys
from dovetail.model.savings import LEDGER_CONFIG_MAP
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES, PODS, Resource
from dovetail.state.cluster.cache import ClusterCache
from dovetail.view.document import Notice

NO_NODEPOOLS: Final = "no-nodepools"
NO_NODECLAIMS: Final = "no-nodeclaims"
NOT_SERVED: Final = "not-served"
KARPENTER: Final = "karpenter"
NO_NODES: Final = "no-nodes"
OTHER_CLOUD: Final = "other-cloud"
_NAME_LABEL: Final = "app.kubernetes.io/name"
_ANNOTATIONS: Final = "dovetail.sh/"


def find_notices(
    cache: ClusterCache, *, autoscaler: str, unread: Collection[Resource] = ()
) -> dict[str, Notice]:
    """Return what can be said about any cluster, by code.

    Kinds in ``unread`` could not be listed: that there are none of them is not known.
    """
    notices = []
    nodes = cache.nodes()
    clouds = sorted({find_other_cloud(node.labels, node.provider_id) for node in nodes})
    if nodes and all(clouds):
        notices.append(
            Notice(
                code=OTHER_CLOUD,
                message=f"all nodes are of another cloud ({', '.join(clouds)}): they are shown with their "
                "pods, without prices, keep reasons and savings",
                remedy="dovetail savings shows what the same pods would cost on EC2",
            )
        )
    elif NODE_POOLS in unread:
        pass
    elif not cache.pools():
        notices.append(
            Notice(
                code=NO_NODEPOOLS,
                message="the cluster has no NodePools: nodes are shown with their pods and list prices, "
                "without savings",
                remedy="create a NodePool and an EC2NodeClass, or pass a dump that has them",
            )
        )
    elif (
        NODE_CLAIMS not in unread
        and not cache.claims()
        and any(label_keys.NODEPOOL in node.labels for node in nodes)
    ):
        notices.append(
            Notice(
                code=NO_NODECLAIMS,
                message="nodes belong to NodePools, but there are no NodeClaims: states and keep reasons "
                "of these nodes are incomplete",
                remedy="make a dump with NodeClaims: dovetail dump -o cluster.json",
            )
        )
    if NODES not in unread and not nodes and not cache.claims():
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


def describe_forbidden(resources: Collection[Resource]) -> Iterator[Notice]:
    """Yield the notices that kinds may not be listed; one for all kinds of minor effect."""
    minor = [resource for resource in resources if resource.plural not in _MISSING]
    groups = [([resource], _MISSING[resource.plural]) for resource in resources if resource not in minor]
    groups += [(minor, "keep reasons and plans do not consider them")] if minor else []
    for group, effect in groups:
        names = [resource.qualified_name for resource in group]
        yield Notice(
            code="forbidden-" + (group[0].plural if group is not minor else "others"),
            message=f"no rights to list {_join(names)}: {effect}",
            remedy="kubectl create clusterrole dovetail-view --verb=get,list,watch "
            f"--resource={','.join(names)}, and bind it to your user",
        )


def describe_not_served(resources: Collection[Resource]) -> Iterator[Notice]:
    """Yield the notice that kinds do not exist in the cluster."""
    if resources:
        names = [f"{resource.qualified_name}/{resource.version}" for resource in resources]
        effect = "nodes are shown with their pods and list prices, without keep reasons and savings"
        if NODE_POOLS not in resources:
            effect = "keep reasons and plans are incomplete"
        yield Notice(
            code=NOT_SERVED,
            message=f"the API server does not serve {_join(names)}: {effect}",
            remedy="dovetail crds | kubectl apply --server-side -f - installs the CustomResourceDefinitions",
        )


def _join(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


_MISSING: Final[Mapping[str, str]] = {
    "nodes": "no nodes and prices are shown",
    "pods": "nodes are shown as if they were empty, and keep reasons are wrong",
    "nodeclaims": "nodes in flight and decisions are not shown",
    "nodepools": "nodes are shown without keep reasons and savings",
    "ec2nodeclasses": "keep reasons and plans use the default of every node class",
    "poddisruptionbudgets": "keep reasons do not consider PodDisruptionBudgets",
    "events": "interruptions and refused disruptions are not shown",
    "configmaps": f"the ledger {LEDGER_CONFIG_MAP} is not shown",
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
