"""Instance types by name, worked out once for as long as they stay the same."""

from collections.abc import Mapping

from dovetail.model.cloud.instance_type import InstanceType


class TypesByName:
    """A cloud answers with the same tuple until something changes; so does this."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[InstanceType, ...], Mapping[str, InstanceType]]] = {}

    def of(self, owner: str, types: tuple[InstanceType, ...]) -> Mapping[str, InstanceType]:
        """Return the types of a node class or pool, ``owner``, by their names."""
        known = self._known.get(owner)
        if known is not None and known[0] is types:
            return known[1]
        made = {one.name: one for one in types}
        self._known[owner] = (types, made)
        return made
