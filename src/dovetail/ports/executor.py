"""Heavy thinking, kept off the loop on which everything else waits."""

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Offload(Protocol):
    """A thread in production; in a simulation the work is simply done."""

    async def run(self, work: Callable[[], T]) -> T: ...
