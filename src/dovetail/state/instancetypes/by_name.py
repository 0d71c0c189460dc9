"""Instance types by name, computed once per tuple of types."""

from collections.abc import Collection, Mapping

from dovetail.model.cloud.instance_type import InstanceType
from dovetail.state.cluster.store import ObjectChange


class InstanceTypeIndex:
    """Caches a mapping per owner: providers return the same tuple until types change."""

    def __init__(self) -> None:
        self._indexes: dict[str, tuple[tuple[InstanceType, ...], Mapping[str, InstanceType]]] = {}

    def by_name(self, owner: str, types: tuple[InstanceType, ...]) -> Mapping[str, InstanceType]:
        """Return the instance types of an ``owner``, a node class or NodePool, by name."""
        cached = self._indexes.get(owner)
        if cached is not None and cached[0] is types:
            return cached[1]
        index = {instance_type.name: instance_type for instance_type in types}
        self._indexes[owner] = (types, index)
        return index

    def handle_nodepool(self, change: ObjectChange) -> None:
        """Event handler: forget a NodePool that is deleted."""
        if change.new is None:
            self._indexes.pop(change.old.name, None)

    def retain(self, owners: Collection[str]) -> None:
        """Forget all other owners, and with them their types."""
        if len(self._indexes) > len(owners):
            self._indexes = {owner: cached for owner, cached in self._indexes.items() if owner in owners}
