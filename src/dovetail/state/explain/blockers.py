"""Blockers: objects that prevent disruption, and the savings that each prevents."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from dovetail.core.disruption.candidates import Blocker
from dovetail.core.disruption.command import KeepReason
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.condition_types import CONSOLIDATABLE, INITIALIZED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import Budget, Disruption, NodePool
from dovetail.model.kube.conditions import TRUE, Condition, is_true
from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource

_CONSOLIDATABLE: Final = Condition(status=TRUE, reason=CONSOLIDATABLE)

Objects = Mapping[Resource, Sequence[Any]]
"""Decoded objects of a cluster, by kind."""


class BlockedSavings(msgspec.Struct, frozen=True, kw_only=True):
    """A blocker with the nodes that it keeps."""

    blocker: Blocker
    message: str = msgspec.field(name="because")
    """Keep reason of the first node by name; ``because`` in JSON."""
    nodes: tuple[str, ...]
    price: float
    """USD per hour of all these nodes."""
    saving: float | None = None
    """USD per hour that could be saved without the blocker; None: not computed."""


def group_by_blocker(keep_reasons: Iterable[KeepReason]) -> tuple[BlockedSavings, ...]:
    """Return all blockers, the most expensive nodes first."""
    by_blocker: dict[Blocker, list[KeepReason]] = {}
    for reason in keep_reasons:
        if reason.blocker is not None and reason.code != "goes":
            by_blocker.setdefault(reason.blocker, []).append(reason)
    blocked = [
        BlockedSavings(
            blocker=blocker,
            message=reasons[0].message,
            nodes=tuple(reason.node for reason in reasons),
            price=sum(reason.price for reason in reasons),
        )
        for blocker, reasons in by_blocker.items()
    ]
    return tuple(sorted(blocked, key=lambda entry: (-entry.price, entry.blocker)))


def compute_savings(
    blocked: Sequence[BlockedSavings], saving: Callable[[Objects], float], objects: Objects, limit: int
) -> tuple[BlockedSavings, ...]:
    """Compute the saving without each of the first ``limit`` blockers; sort by it.

    ``saving`` returns the possible saving in a cluster, in USD per hour.
    """
    current = saving(objects) if blocked else 0.0
    computed = [
        replace(entry, saving=max(0.0, saving(remove_blocker(objects, entry.blocker)) - current))
        for entry in blocked[:limit]
    ]
    computed.sort(key=lambda entry: (-(entry.saving or 0.0), -entry.price, entry.blocker))
    return (*computed, *blocked[limit:])


def remove_blocker(objects: Objects, blocker: Blocker) -> Objects:
    """Return the cluster with one blocker removed."""
    resource, change = _REMOVALS[blocker.kind]
    names = set(blocker.name.split(", "))
    changed = (change(obj) if _get_name(resource, obj) in names else obj for obj in objects.get(resource, ()))
    return {**objects, resource: [obj for obj in changed if obj is not None]}


def mark_consolidatable(objects: Objects) -> Objects:
    """Return the cluster with consolidateAfter passed for every initialized node."""
    return {**objects, kinds.NODE_CLAIMS: list(map(_mark_claim, objects.get(kinds.NODE_CLAIMS, ())))}


def _get_name(resource: Resource, obj: Any) -> str:
    return f"{obj.namespace}/{obj.name}" if resource.namespaced else str(obj.name)


def _mark_claim(claim: NodeClaim) -> NodeClaim:
    """Set Consolidatable on an initialized NodeClaim."""
    if not is_true(claim.conditions, INITIALIZED):
        return claim
    return replace(claim, conditions=claim.conditions.with_items({CONSOLIDATABLE: _CONSOLIDATABLE}))


def _remove_annotation(obj: Any) -> Any:
    annotations = {key: value for key, value in obj.annotations.items() if key != label_keys.DO_NOT_DISRUPT}
    return replace(obj, annotations=FrozenDict(annotations))


def _remove_object(_: Any) -> None:
    return None


def _allow_all_disruption(pool: NodePool) -> NodePool:
    """Return a NodePool that consolidates at once, without budgets."""
    return replace(pool, disruption=Disruption(budgets=(Budget(nodes="100%"),)))


_REMOVALS: dict[str, tuple[Resource, Callable[[Any], Any]]] = {
    "Pod": (kinds.PODS, _remove_annotation),
    "Node": (kinds.NODES, _remove_annotation),
    "PodDisruptionBudget": (kinds.POD_DISRUPTION_BUDGETS, _remove_object),
    "NodePool": (kinds.NODE_POOLS, _allow_all_disruption),
}
"""Kind of blocker → resource, and the change that removes the blocker."""
