"""The NodeOverlays that hold, and what they make of instance types."""

from collections.abc import Iterable

import msgspec

from dovetail.core.nodeoverlay import Layer, overlaid
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodeoverlay import NodeOverlay
from dovetail.model.karpenter.nodepool import NodePool

Types = tuple[InstanceType, ...]


class _Laid(msgspec.Struct):
    """What a pool was last given, and from what."""

    pool: NodePool
    given: Types
    made: Types
    each: dict[str, tuple[InstanceType, InstanceType]]
    """Type → as the cloud has it, and as overlays have it."""


class Overlays:
    """Applied to what the cloud sells, by the clouds' adapters; answers the same until it changes.

    Until somebody has looked at a pool it can buy nothing: at wrong prices the
    wrong machines would be bought.
    """

    def __init__(self, *, on: bool = False) -> None:
        self._on = on
        self._layers: list[Layer] = []
        self._overlays: tuple[NodeOverlay, ...] = ()
        self._looked_at: frozenset[str] = frozenset()
        self._laid: dict[str, _Laid] = {}
        self._sold: dict[str, Types] = {}

    def settle(self, valid: tuple[NodeOverlay, ...], pools: Iterable[str]) -> bool:
        """Take the overlays that hold for these pools; tell whether anything changed."""
        pools = frozenset(pools)
        if (valid, pools) == (self._overlays, self._looked_at):
            return False
        if valid != self._overlays:
            self._overlays = valid
            self._layers = [Layer(one) for one in valid]
            self._laid.clear()
        self._looked_at = pools
        return True

    def sold(self, pool: str) -> Types:
        """Return what the cloud last said it sells to a pool."""
        return self._sold.get(pool, ())

    def applied(self, pool: NodePool, types: Types) -> Types:
        """Return what a pool can buy, as users have it."""
        if not self._on:
            return types
        self._sold[pool.name] = types
        if pool.name not in self._looked_at:
            return ()
        known = self._laid.get(pool.name)
        if known is None or known.pool.template.labels != pool.template.labels:
            known = self._laid[pool.name] = _Laid(pool, (), (), {})
        if known.given is not types:
            known.made = tuple(self._lay(known, pool, one) for one in types)
            known.given = types
        return known.made

    def applied_to(self, claim: NodeClaim, types: Types) -> Types:
        """Return what a claim can buy: overlays are for claims of pools that were looked at."""
        known = self._laid.get(claim.pool)
        return types if known is None else self.applied(known.pool, types)

    def _lay(self, known: _Laid, pool: NodePool, kind: InstanceType) -> InstanceType:
        before = known.each.get(kind.name)
        if before is None or before[0] is not kind:
            before = known.each[kind.name] = kind, overlaid(kind, pool, self._layers)
        return before[1]
