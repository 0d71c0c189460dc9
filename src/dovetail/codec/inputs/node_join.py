"""Nodes, claims and bound pods, joined into the nodes that decisions see."""

from collections.abc import Iterable, Mapping

from dovetail.codec.text.suggestions import count_of
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.taints import DISRUPTED
from dovetail.model.node import Node, NodeObject

_NO_LIMITS: FrozenDict[str, int] = FrozenDict()


def join_nodes(
    objects: Iterable[NodeObject],
    claims: Iterable[NodeClaim],
    pods: Iterable[Pod],
    volume_limits: Mapping[str, FrozenDict[str, int]],
) -> tuple[tuple[Node, ...], list[str]]:
    """Return the nodes, sorted by name, and remarks about what could not be joined."""
    remarks: list[str] = []
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        by_node.setdefault(pod.node_name, []).append(pod)
    all_claims = list(claims)
    by_provider = {one.provider_id: one for one in all_claims if one.provider_id}
    by_name = {one.node_name: one for one in all_claims if one.node_name}
    joined, found = set(), []
    for one in objects:
        claim = by_provider.get(one.provider_id) or by_name.get(one.name)
        if claim is not None:
            joined.add(claim.name)
        limits = volume_limits.get(one.name, _NO_LIMITS)
        node = join(one, claim, by_node.pop(one.name, []), limits)
        if is_too_young(node):
            remarks.append(f"node {node.name} does not say its instance type yet; left out")
        else:
            found.append(node)
    for claim in all_claims:
        if claim.name in joined:
            continue
        if claim.provider_id or is_true(claim.conditions, "Launched"):
            found.append(expected(claim))
        else:
            remarks.append(f"nodeclaim {claim.name} is not launched yet; left out")
    remarks.extend(_lost(by_node))
    return tuple(sorted(found, key=lambda node: node.name)), remarks


def join(
    one: NodeObject,
    claim: NodeClaim | None,
    pods: Iterable[Pod],
    volume_limits: FrozenDict[str, int],
) -> Node:
    """Join a node with its claim; until it has registered, the claim speaks for it."""
    managed = claim is not None or label_keys.NODEPOOL in one.labels
    registered = not managed or one.labels.get(label_keys.REGISTERED) == "true"
    initialized = not managed or one.labels.get(label_keys.INITIALIZED) == "true"
    spoken_for = claim is not None and not registered
    terminating = claim is not None and _is_leaving(claim)
    return Node(
        name=one.name,
        claim=claim.name if claim else "",
        labels=claim.labels if claim and spoken_for else one.labels,
        annotations=claim.annotations if claim and spoken_for else one.annotations,
        taints=claim.taints if claim and spoken_for else one.taints,
        startup_taints=claim.startup_taints if claim else (),
        capacity=one.capacity,
        allocatable=one.allocatable,
        claim_capacity=claim.capacity if claim else Node(name="").capacity,
        claim_allocatable=claim.allocatable if claim else Node(name="").allocatable,
        registered=registered,
        initialized=initialized,
        deleting=terminating or one.deleting or _is_being_disrupted(one),
        provider_id=one.provider_id,
        pods=tuple(pods),
        volume_limits=volume_limits,
    )


def expected(claim: NodeClaim) -> Node:
    """Return the node that a launched claim will become."""
    return Node(
        name=claim.node_name or claim.name,
        claim=claim.name,
        labels=claim.labels,
        annotations=claim.annotations,
        taints=claim.taints,
        startup_taints=claim.startup_taints,
        claim_capacity=claim.capacity,
        claim_allocatable=claim.allocatable,
        registered=False,
        initialized=False,
        deleting=_is_leaving(claim),
        provider_id=claim.provider_id,
    )


def _is_leaving(claim: NodeClaim) -> bool:
    return claim.deleting or is_true(claim.conditions, "InstanceTerminating")


def _is_being_disrupted(one: NodeObject) -> bool:
    """Look for the taint: the mark itself lives in a controller's memory."""
    return any((t.key, t.effect) == (DISRUPTED.key, DISRUPTED.effect) for t in one.taints)


def is_too_young(node: Node) -> bool:
    """Tell whether a node says too little of itself to be counted on yet."""
    known = label_keys.INSTANCE_TYPE in node.labels
    return node.managed and not node.initialized and not known


def _lost(by_node: Mapping[str, list[Pod]]) -> list[str]:
    lost = {name: pods for name, pods in by_node.items() if name}
    if not lost:
        return []
    count = sum(len(pods) for pods in lost.values())
    names = ", ".join(sorted(lost)[:3]) + (", …" if len(lost) > 3 else "")
    return [f"{count_of(count, 'bound pod')} left out: not given are nodes {names}"]
