"""Who keeps nodes from being given back, and what each of them costs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from dovetail.core.disruption.candidates import Blocker
from dovetail.core.disruption.command import Stay
from dovetail.model import labels as label_keys
from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Object

_RIPE: Final = {"type": "Consolidatable", "status": "True", "reason": "Consolidatable"}

Objects = Mapping[Resource, Sequence[Object]]
"""A cluster on the wire, kind by kind."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """One who keeps nodes, and what comes of it."""

    blocker: Blocker
    because: str
    """Of the first node, by name."""
    nodes: tuple[str, ...]
    price: float
    """USD per hour that these nodes cost together."""
    saving: float | None = None
    """USD per hour that could be saved without it; None where nobody reckoned."""


def held_by(stays: Iterable[Stay]) -> tuple[Held, ...]:
    """Return everybody who keeps nodes, the dearest first."""
    kept: dict[Blocker, list[Stay]] = {}
    for one in stays:
        if one.blocker is not None and one.code != "goes":
            kept.setdefault(one.blocker, []).append(one)
    found = [
        Held(
            blocker=blocker,
            because=ones[0].because,
            nodes=tuple(one.node for one in ones),
            price=sum(one.price for one in ones),
        )
        for blocker, ones in kept.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.price, one.blocker)))


def reckoned(
    held: Sequence[Held],
    saving: Callable[[Objects], float],
    objects: Objects,
    most: int,
) -> tuple[Held, ...]:
    """Say of the dearest what could be saved if each alone were not there, and sort by that.

    ``saving`` tells what could be saved in a cluster as it is given.
    """
    usual = saving(objects) if held else 0.0
    told = [
        msgspec.structs.replace(one, saving=max(0.0, saving(without(objects, one.blocker)) - usual))
        for one in held[:most]
    ]
    told.sort(key=lambda one: (-(one.saving or 0.0), -one.price, one.blocker))
    return (*told, *held[most:])


def without(objects: Objects, blocker: Blocker) -> Objects:
    """Return a cluster in which somebody no longer keeps any node."""
    resource, change = _LIFTED[blocker.kind]
    names = set(blocker.name.split(", "))
    changed = []
    for one in objects.get(resource, ()):
        lifted = change(one) if _name(one) in names else one
        if lifted is not None:
            changed.append(lifted)
    return {**objects, resource: changed}


def in_the_end(objects: Objects) -> Objects:
    """Return a cluster in which every node has been quiet for long enough."""
    return {**objects, kinds.NODE_CLAIMS: list(map(_ripe, objects.get(kinds.NODE_CLAIMS, ())))}


def _name(obj: Object) -> str:
    meta = obj["metadata"]
    namespace = meta.get("namespace", "")
    return f"{namespace}/{meta['name']}" if namespace else str(meta["name"])


def _ripe(claim: Object) -> Object:
    """Let a claim be consolidatable, if its node is of use at all."""
    status = claim.get("status") or {}
    others = [one for one in status.get("conditions") or () if one["type"] != _RIPE["type"]]
    if all((one["type"], one["status"]) != ("Initialized", "True") for one in others):
        return claim
    return {**claim, "status": {**status, "conditions": [*others, _RIPE]}}


def _undisturbed(obj: Object) -> Object:
    meta = obj["metadata"]
    notes = {
        key: value
        for key, value in (meta.get("annotations") or {}).items()
        if key != label_keys.DO_NOT_DISRUPT
    }
    return {**obj, "metadata": {**meta, "annotations": notes}}


def _gone(_: Object) -> None:
    return None


def _willing(pool: Object) -> Object:
    spec: dict[str, Any] = pool["spec"]
    rules = {
        **(spec.get("disruption") or {}),
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "0s",
        "budgets": [{"nodes": "100%"}],
    }
    return {**pool, "spec": {**spec, "disruption": rules}}


_LIFTED: dict[str, tuple[Resource, Callable[[Object], Object | None]]] = {
    "Pod": (kinds.PODS, _undisturbed),
    "Node": (kinds.NODES, _undisturbed),
    "PodDisruptionBudget": (kinds.POD_DISRUPTION_BUDGETS, _gone),
    "NodePool": (kinds.NODE_POOLS, _willing),
}
"""How each kind of blocker ceases to be one."""
