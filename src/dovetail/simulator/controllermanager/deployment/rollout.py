"""Rolling update: the next size of each ReplicaSet of a Deployment."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dovetail.simulator.apiserver.storage.frozen_object import Object


class RolloutBounds(NamedTuple):
    """Replicas of a Deployment, and how far a rolling update may deviate."""

    replicas: int
    surge: int
    unavailable: int

    @property
    def max_pods(self) -> int:
        """Maximum number of pods at a time."""
        return self.replicas + self.surge if self.replicas else 0

    @property
    def min_available(self) -> int:
        return self.replicas - self.unavailable


class ReplicaSetSize(NamedTuple):
    """Size of one ReplicaSet of a Deployment."""

    name: str
    replicas: int
    available: int
    desired_at_resize: int | None = None
    """The Deployment's replicas when this ReplicaSet was last resized."""
    max_at_resize: int | None = None
    """The Deployment's maximum number of pods at that time."""


Sizes = Mapping[str, int]
"""ReplicaSet → new size; only those whose size changes."""


def scaled_value(amount: int | str | None, whole: int, *, up: bool, default: int | str) -> int:
    """Resolve a number or a percentage of ``whole``."""
    amount = default if amount is None else amount
    if isinstance(amount, int):
        return amount
    size = int(amount.removesuffix("%")) * whole / 100
    return math.ceil(size) if up else math.floor(size)


def rollout_bounds(deployment: Object) -> RolloutBounds:
    """Return a Deployment's replicas and strategy.

    ``maxSurge`` and ``maxUnavailable`` are never both 0, or no update would progress.
    """
    spec: Mapping[str, Any] = deployment["spec"]
    replicas = int(spec.get("replicas", 1))
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return RolloutBounds(replicas, 0, replicas)
    rolling = strategy.get("rollingUpdate") or {}
    surge = scaled_value(rolling.get("maxSurge"), replicas, up=True, default="25%")
    unavailable = scaled_value(rolling.get("maxUnavailable"), replicas, up=False, default="25%")
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return RolloutBounds(replicas, surge, min(unavailable, replicas))


def rollout_step(
    bounds: RolloutBounds, new: ReplicaSetSize, old_replica_sets: Sequence[ReplicaSetSize]
) -> Sizes:
    """Return one step of a rolling update: scale up the new, then scale down the old.

    ``old_replica_sets`` are in order of creation. The result is empty if there is nothing to do.
    """
    size = new_replica_count(bounds, new, old_replica_sets)
    if size != new.replicas:
        return {new.name: size}
    return _scale_down_old(bounds, new, old_replica_sets)


def new_replica_count(
    bounds: RolloutBounds, new: ReplicaSetSize, old_replica_sets: Iterable[ReplicaSetSize]
) -> int:
    """Return the size that the new ReplicaSet may have now."""
    if new.replicas > bounds.replicas:
        return bounds.replicas
    free = bounds.replicas + bounds.surge - new.replicas - sum(old.replicas for old in old_replica_sets)
    return new.replicas + max(0, min(free, bounds.replicas - new.replicas))


def _scale_down_old(
    bounds: RolloutBounds, new: ReplicaSetSize, old_replica_sets: Sequence[ReplicaSetSize]
) -> Sizes:
    sizes = {old.name: old.replicas for old in old_replica_sets}
    total = new.replicas + sum(sizes.values())
    missing = new.replicas - new.available
    spare = total - bounds.min_available - missing
    if spare <= 0:
        return {}
    # Unavailable pods go first.
    for old in old_replica_sets:
        unhealthy = min(spare, max(0, sizes[old.name] - old.available))
        sizes[old.name] -= unhealthy
        spare -= unhealthy
    available = new.available + sum(old.available for old in old_replica_sets)
    spare = available - bounds.min_available
    for old in old_replica_sets:
        removed = min(max(0, spare), sizes[old.name])
        sizes[old.name] -= removed
        spare -= removed
    return {old.name: sizes[old.name] for old in old_replica_sets if sizes[old.name] != old.replicas}


def scale_replica_sets(
    bounds: RolloutBounds,
    new: ReplicaSetSize | None,
    old_replica_sets: Sequence[ReplicaSetSize],
    *,
    rolling: bool,
) -> Sizes:
    """Return the sizes after a change of the Deployment's replicas.

    Works in the middle of a rolling update, too.
    """
    replica_sets = [*([new] if new is not None else []), *old_replica_sets]
    active = [replica_set for replica_set in replica_sets if replica_set.replicas > 0]
    if len(active) <= 1:
        single = active[0] if active else (new or (old_replica_sets[-1] if old_replica_sets else None))
        return {} if single is None else {single.name: bounds.replicas}
    if new is not None and new.replicas == new.available == new.desired_at_resize == bounds.replicas:
        return {old.name: 0 for old in old_replica_sets if old.replicas > 0}
    return _scale_proportionally(bounds, active) if rolling else {}


def _scale_proportionally(bounds: RolloutBounds, active: Sequence[ReplicaSetSize]) -> Sizes:
    """Distribute the difference in proportion to size, largest first."""
    change = bounds.max_pods - sum(replica_set.replicas for replica_set in active)
    distributed, sizes = 0, {}
    largest_first = sorted(active, key=lambda replica_set: -replica_set.replicas)
    for replica_set in largest_first:
        former_max = replica_set.max_at_resize or bounds.max_pods or 1
        share = round(replica_set.replicas * bounds.max_pods / former_max) - replica_set.replicas
        remaining = change - distributed
        share = min(max(share, 0), remaining) if change > 0 else max(min(share, 0), remaining)
        sizes[replica_set.name] = replica_set.replicas + share
        distributed += share
    # The rounding remainder goes to the largest ReplicaSet that has pods to lose.
    remaining = change - distributed
    for replica_set in largest_first:
        size = max(0, sizes[replica_set.name] + remaining)
        remaining -= size - sizes[replica_set.name]
        sizes[replica_set.name] = size
    return sizes
