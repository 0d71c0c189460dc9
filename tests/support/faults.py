"""A Kube whose writes are noted, and refused when a test says so."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Kube
from tests.support.requests import READS, Front, Request

T = TypeVar("T")
Note = Callable[[str, str], Awaitable[None]]
"""Told of each change that came through: its verb, and what was changed."""


class Faults(Front):
    """``ports.kube_client.Kube`` in front of another."""

    def __init__(self, kube: Kube, *, note: Note) -> None:
        super().__init__(kube)
        self._note = note
        self._failing: dict[tuple[str, Resource], list[Exception]] = {}

    def fail(self, verb: str, resource: Resource, *errors: Exception) -> None:
        """Have the next writes be refused; verbs are as noted: ``patch status``, ``delete`` …"""
        self._failing.setdefault((verb, resource), []).extend(errors)

    async def passing(self, request: Request, answer: Awaitable[T]) -> T:
        if request.verb in READS:
            return await answer
        verb = f"{request.verb} {request.subresource}".rstrip()
        if self._failing.get((verb, request.resource)):
            if isinstance(answer, Coroutine):
                answer.close()  # Never asked for; Python would complain that nobody waited.
            raise self._failing[(verb, request.resource)].pop(0)
        answered = await answer
        await self._note(verb, f"{request.resource.kind}/{request.name}")
        return answered
