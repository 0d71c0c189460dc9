"""Who looks on while the API is written to, and notes what that took."""

from collections.abc import Awaitable
from typing import TypeVar

from dovetail.ports.kube_client import Kube
from tests.support.permissions import Permission, permission
from tests.support.requests import Front, Request

T = TypeVar("T")


class NotingKube(Front):
    """``ports.kube_client.Kube`` that notes what is asked of another."""

    def __init__(self, kube: Kube, seen: set[Permission]) -> None:
        super().__init__(kube)
        self._seen = seen

    async def passing(self, request: Request, answer: Awaitable[T]) -> T:
        self._seen.add(permission(request.resource, request.verb, request.subresource))
        return await answer
