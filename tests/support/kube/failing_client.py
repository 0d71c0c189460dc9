"""A KubeClient that reports its writes, and fails them as a test scripts it."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import KubeClient
from tests.support.kube.forwarding_client import READS, ForwardingKubeClient, Request

T = TypeVar("T")
WriteObserver = Callable[[str, str], Awaitable[None]]
"""Called after each successful write with its verb and object."""


class FailingKubeClient(ForwardingKubeClient):
    """``ports.kube_client.KubeClient`` in front of another."""

    def __init__(self, kube: KubeClient, *, on_write: WriteObserver) -> None:
        super().__init__(kube)
        self._on_write = on_write
        self._failing: dict[tuple[str, Resource], list[Exception]] = {}

    def fail(self, verb: str, resource: Resource, *errors: Exception) -> None:
        """Reject the next writes; verbs are ``patch status``, ``delete`` and so on."""
        self._failing.setdefault((verb, resource), []).extend(errors)

    async def forward(self, request: Request, response: Awaitable[T]) -> T:
        if request.verb in READS:
            return await response
        verb = f"{request.verb} {request.subresource}".rstrip()
        if self._failing.get((verb, request.resource)):
            if isinstance(response, Coroutine):
                response.close()  # Never sent; Python would warn that it was never awaited.
            raise self._failing[(verb, request.resource)].pop(0)
        result = await response
        await self._on_write(verb, f"{request.resource.kind}/{request.name}")
        return result
