"""An API server whose answers take as long as a test likes, and come in any order."""

from collections.abc import Awaitable
from typing import TypeVar

from dovetail.ports.kube_client import Kube
from dovetail.simulator.event_loop import Pause
from tests.support.requests import Front, Request

T = TypeVar("T")


class SlowKube(Front):
    """Everything happens at once; who asked hears of it when a test lets an answer through."""

    def __init__(self, kube: Kube) -> None:
        super().__init__(kube)
        self.waiting: list[Pause] = []

    def let_through(self, which: int) -> None:
        """Let one of the answers that are under way arrive."""
        self.waiting.pop(which % len(self.waiting)).end()

    async def passing(self, request: Request, answer: Awaitable[T]) -> T:
        try:
            return await answer
        finally:
            pause = Pause()
            self.waiting.append(pause)
            await pause
