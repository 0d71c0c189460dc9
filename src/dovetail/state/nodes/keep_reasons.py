"""The latest keep reason of each node."""

from collections.abc import Collection, Iterable

from dovetail.core.disruption.command import KeepReason


class KeepReasons:
    """Keep reasons by node name."""

    def __init__(self) -> None:
        self._reasons: dict[str, KeepReason] = {}

    def record(self, keep_reasons: Iterable[KeepReason]) -> None:
        self._reasons.update((reason.node, reason) for reason in keep_reasons)

    def remove(self, node: str) -> None:
        """Remove the reason of a node that is disrupted or deleted."""
        self._reasons.pop(node, None)

    def get(self, node: str) -> KeepReason | None:
        return self._reasons.get(node)

    def all(self) -> Collection[KeepReason]:
        return self._reasons.values()
