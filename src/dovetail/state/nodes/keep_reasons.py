"""Why each node is still there: the latest answer to that question."""

from collections.abc import Collection, Iterable

from dovetail.core.disruption.command import Stay


class Stays:
    """One answer a node, by its name."""

    def __init__(self) -> None:
        self._known: dict[str, Stay] = {}

    def note(self, stays: Iterable[Stay]) -> None:
        self._known.update((one.node, one) for one in stays)

    def forget(self, node: str) -> None:
        """Let go of a node that goes, or has gone."""
        self._known.pop(node, None)

    def of(self, node: str) -> Stay | None:
        return self._known.get(node)

    def all(self) -> Collection[Stay]:
        return self._known.values()
