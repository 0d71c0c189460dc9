"""A KubeClient that records the permissions that its requests need."""

from collections.abc import Awaitable
from typing import TypeVar

from dovetail.ports.kube_client import KubeClient
from tests.support.kube.forwarding_client import ForwardingKubeClient, Request
from tests.support.kube.permissions import Permission, permission

T = TypeVar("T")


class PermissionRecorder(ForwardingKubeClient):
    """``ports.kube_client.KubeClient`` that records permissions and forwards requests."""

    def __init__(self, kube: KubeClient, permissions: set[Permission]) -> None:
        super().__init__(kube)
        self._permissions = permissions

    async def forward(self, request: Request, response: Awaitable[T]) -> T:
        self._permissions.add(permission(request.resource, request.verb, request.subresource))
        return await response
