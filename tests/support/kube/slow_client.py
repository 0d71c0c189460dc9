"""KubeClient whose responses a test delivers, in any order."""

from collections.abc import Awaitable
from typing import TypeVar

from dovetail.ports.kube_client import KubeClient
from dovetail.simulator.event_loop import VirtualFuture
from tests.support.kube.forwarding_client import ForwardingKubeClient, Request

T = TypeVar("T")


class SlowKubeClient(ForwardingKubeClient):
    """Calls take effect at once; a test decides when each response arrives."""

    def __init__(self, kube: KubeClient) -> None:
        super().__init__(kube)
        self.waiting: list[VirtualFuture] = []

    def deliver(self, which: int) -> None:
        """Deliver one of the pending responses."""
        self.waiting.pop(which % len(self.waiting)).set_done()

    async def forward(self, request: Request, response: Awaitable[T]) -> T:
        try:
            return await response
        finally:
            future = VirtualFuture()
            self.waiting.append(future)
            await future
