"""Valid NodeOverlays, and their effect on instance types."""

from collections.abc import Iterable

import msgspec

from dovetail.core.nodeoverlay import CompiledOverlay, apply_overlays
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodeoverlay import NodeOverlay
from dovetail.model.karpenter.nodepool import NodePool

Types = tuple[InstanceType, ...]


class _PoolOverlay(msgspec.Struct):
    """Instance types of a NodePool before and after overlays."""

    pool: NodePool
    overlays: list[CompiledOverlay]
    """Those that may match nodes of the NodePool."""
    base_types: Types
    types: Types
    by_name: dict[str, tuple[InstanceType, InstanceType]]
    """Name → (type of the cloud provider, type with overlays)."""


class NodeOverlays:
    """Applies overlays to instance types; returns the same tuple until one changes.

    A NodePool has no instance types until overlays are validated for it: wrong
    prices would launch the wrong instance types.
    """

    def __init__(self, *, enabled: bool = False) -> None:
        self._enabled = enabled
        self._compiled: list[CompiledOverlay] = []
        self._overlays: tuple[NodeOverlay, ...] = ()
        self._validated_pools: frozenset[str] = frozenset()
        self._by_pool: dict[str, _PoolOverlay] = {}
        self._base_types: dict[str, Types] = {}

    def update(self, valid: tuple[NodeOverlay, ...], pools: Iterable[str]) -> bool:
        """Set the valid overlays and the validated NodePools; return True if changed."""
        pools = frozenset(pools)
        if (valid, pools) == (self._overlays, self._validated_pools):
            return False
        if valid != self._overlays:
            self._overlays = valid
            self._compiled = [CompiledOverlay(overlay) for overlay in valid]
            self._by_pool.clear()
        self._validated_pools = pools
        self._by_pool = {name: cached for name, cached in self._by_pool.items() if name in pools}
        self._base_types = {name: types for name, types in self._base_types.items() if name in pools}
        return True

    def get_base_types(self, pool: str) -> Types:
        """Return the last instance types of a NodePool without overlays."""
        return self._base_types.get(pool, ())

    def apply(self, pool: NodePool, types: Types) -> Types:
        """Return the instance types of a NodePool with overlays."""
        if not self._enabled:
            return types
        self._base_types[pool.name] = types
        if pool.name not in self._validated_pools:
            return ()
        cached = self._get_pool(pool)
        if cached.base_types is not types:
            cached.types = tuple(self._apply_to_type(cached, pool, instance_type) for instance_type in types)
            cached.base_types = types
        return cached.types

    def apply_to_claim(self, claim: NodeClaim, types: Types) -> Types:
        """Return instance types with the overlays of a NodeClaim's NodePool, if validated."""
        cached = self._by_pool.get(claim.pool)
        return types if cached is None else self.apply(cached.pool, types)

    def get_for_claim(self, claim: NodeClaim) -> tuple[NodePool, tuple[NodeOverlay, ...]] | None:
        """Return the NodePool of a claim and all valid overlays, for ``set_for_pool``.

        None if overlays are disabled or not validated for the NodePool.
        """
        cached = self._by_pool.get(claim.pool)
        return None if cached is None else (cached.pool, self._overlays)

    def set_for_pool(self, pool: NodePool, valid: tuple[NodeOverlay, ...]) -> None:
        """Set the overlays that another process has validated, and one of its NodePools."""
        self.update(valid, {*self._validated_pools, pool.name})
        self._get_pool(pool)

    def _get_pool(self, pool: NodePool) -> _PoolOverlay:
        cached = self._by_pool.get(pool.name)
        if cached is None or cached.pool.template.labels != pool.template.labels:
            overlays = [compiled for compiled in self._compiled if compiled.may_match_nodepool(pool)]
            cached = self._by_pool[pool.name] = _PoolOverlay(pool, overlays, (), (), {})
        return cached

    def _apply_to_type(self, cached: _PoolOverlay, pool: NodePool, base: InstanceType) -> InstanceType:
        before = cached.by_name.get(base.name)
        if before is None or before[0] is not base:
            before = cached.by_name[base.name] = base, apply_overlays(base, pool, cached.overlays)
        return before[1]
