"""Nodes that somebody is about to ask for, so that two do not share the same room."""

from collections import Counter


class HeadCount:
    """How many claims of each pool are being written just now.

    A count that is lost in a crash is no harm: what was written is in the API server.
    """

    def __init__(self) -> None:
        self._coming: Counter[str] = Counter()

    def coming(self, pool: str) -> int:
        return self._coming[pool]

    def begin(self, pool: str, nodes: int) -> None:
        """Say that so many are about to be written."""
        self._coming[pool] += nodes

    def done(self, pool: str) -> None:
        """Say that one of them is written, or is not going to be."""
        self._coming[pool] -= 1
        if self._coming[pool] <= 0:
            del self._coming[pool]
