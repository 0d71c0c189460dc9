"""How many pods each ReplicaSet of a Deployment should have next."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dovetail.simulator.apiserver.storage.frozen_object import Object, look


class Room(NamedTuple):
    """How far a rolling update may stray from the number of replicas asked for."""

    replicas: int
    surge: int
    unavailable: int

    @property
    def most(self) -> int:
        """How many pods there may be at once."""
        return self.replicas + self.surge if self.replicas else 0

    @property
    def least_available(self) -> int:
        return self.replicas - self.unavailable


class Part(NamedTuple):
    """One ReplicaSet of a Deployment."""

    name: str
    replicas: int
    available: int
    desired_then: int | None = None
    """The Deployment's replicas when this one was last resized."""
    most_then: int | None = None
    """The most pods that the Deployment could have then."""


Sizes = Mapping[str, int]
"""The new sizes of those ReplicaSets whose size changes, by name."""


def share(amount: int | str | None, whole: int, *, up: bool, default: int | str) -> int:
    """Read a number or a percentage of ``whole``."""
    amount = default if amount is None else amount
    if isinstance(amount, int):
        return amount
    part = int(amount.removesuffix("%")) * whole / 100
    return math.ceil(part) if up else math.floor(part)


def room_of(deployment: Object) -> Room:
    """Read a Deployment's replicas and strategy; at least one of the two can always move."""
    spec: Mapping[str, Any] = deployment["spec"]
    replicas = int(spec.get("replicas", 1))
    if look(spec, "strategy", "type") == "Recreate":
        return Room(replicas, 0, replicas)
    rolling = look(spec, "strategy", "rollingUpdate") or {}
    surge = share(rolling.get("maxSurge"), replicas, up=True, default="25%")
    unavailable = share(rolling.get("maxUnavailable"), replicas, up=False, default="25%")
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Room(replicas, surge, min(unavailable, replicas))


def roll(room: Room, new: Part, olds: Sequence[Part]) -> Sizes:
    """Take one step of a rolling update: first towards the new, then away from the old.

    ``olds`` are in the order they were created. Nothing to do gives no sizes.
    """
    grown = grow(room, new, olds)
    if grown != new.replicas:
        return {new.name: grown}
    return _shrink_old(room, new, olds)


def grow(room: Room, new: Part, olds: Iterable[Part]) -> int:
    """Return the size that the new ReplicaSet may have now."""
    if new.replicas > room.replicas:
        return room.replicas
    free = room.replicas + room.surge - new.replicas - sum(one.replicas for one in olds)
    return new.replicas + max(0, min(free, room.replicas - new.replicas))


def _shrink_old(room: Room, new: Part, olds: Sequence[Part]) -> Sizes:
    sizes = {one.name: one.replicas for one in olds}
    total = new.replicas + sum(sizes.values())
    missing = new.replicas - new.available
    spare = total - room.least_available - missing
    if spare <= 0:
        return {}
    # Pods that serve nobody go first: they are no loss.
    for one in olds:
        useless = min(spare, max(0, sizes[one.name] - one.available))
        sizes[one.name] -= useless
        spare -= useless
    available = new.available + sum(one.available for one in olds)
    spare = available - room.least_available
    for one in olds:
        less = min(max(0, spare), sizes[one.name])
        sizes[one.name] -= less
        spare -= less
    return {one.name: sizes[one.name] for one in olds if sizes[one.name] != one.replicas}


def rescale(room: Room, new: Part | None, olds: Sequence[Part], *, rolling: bool) -> Sizes:
    """Answer a change of the Deployment's replicas, in the middle of an update or not."""
    parts = [*([new] if new is not None else []), *olds]
    active = [one for one in parts if one.replicas > 0]
    if len(active) <= 1:
        only = active[0] if active else (new or (olds[-1] if olds else None))
        return {} if only is None else {only.name: room.replicas}
    if new is not None and new.replicas == new.available == new.desired_then == room.replicas:
        return {one.name: 0 for one in olds if one.replicas > 0}
    return _in_proportion(room, active) if rolling else {}


def _in_proportion(room: Room, active: Sequence[Part]) -> Sizes:
    """Share what is to be added or taken away by size, the largest first."""
    change = room.most - sum(one.replicas for one in active)
    shared, sizes = 0, {}
    largest_first = sorted(active, key=lambda one: -one.replicas)
    for one in largest_first:
        wanted = round(one.replicas * room.most / (one.most_then or room.most or 1)) - one.replicas
        left = change - shared
        part = min(max(wanted, 0), left) if change > 0 else max(min(wanted, 0), left)
        sizes[one.name] = one.replicas + part
        shared += part
    # What rounding left over goes to the largest, as far as that has pods to lose.
    left = change - shared
    for one in largest_first:
        size = max(0, sizes[one.name] + left)
        left -= size - sizes[one.name]
        sizes[one.name] = size
    return sizes
