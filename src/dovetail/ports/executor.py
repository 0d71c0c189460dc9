"""Executor: runs CPU-bound functions without blocking the event loop."""

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Executor(Protocol):
    """Runs a function in a thread; in a simulation, directly and in no virtual time."""

    async def run(self, function: Callable[[], T]) -> T: ...
