"""KubeClient on the in-memory API server, and the reflectors of a cluster cache."""

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Object
from dovetail.simulator.apiserver.interface import find_object
from dovetail.simulator.apiserver.options import DeleteOptions, ListOptions, PatchType, WatchOptions
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.workqueue import start_watch
from dovetail.state.cluster.cache import ClusterCache


class SimulatedKubeClient:
    """``ports.kube_client.KubeClient``; every call returns at once."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return self._api.get(resource, name, namespace)

    async def list(self, resource: Resource, *, labels: str = "", fields: str = "") -> Sequence[Object]:
        return self._api.list(resource, ListOptions(label_selector=labels, field_selector=fields)).items

    async def create(self, resource: Resource, obj: Mapping[str, Any], namespace: str = "") -> Object:
        return self._api.create(resource, obj, namespace)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> Object:
        return self._api.patch(resource, name, patch, PatchType.MERGE, namespace, subresource=subresource)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> Object | None:
        options = DeleteOptions(uid=uid, grace_period_seconds=grace_seconds)
        self._api.delete(resource, name, namespace, options=options)
        return find_object(self._api, resource, name, namespace)

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        self._api.evict(name, namespace, options=DeleteOptions(uid=uid))


class DiscardingKubeClient(SimulatedKubeClient):
    """Client of an event recorder whose Events are not read: creates nothing.

    Events are a third of the writes of a simulated day.
    """

    async def create(self, resource: Resource, obj: Mapping[str, Any], namespace: str = "") -> Object:
        return dict(obj)


def start_reflectors(cache: ClusterCache, api: ApiServer, clock: VirtualClock) -> list[Any]:
    """List and watch every kind into a cache; return a stop function per kind."""
    stops = []
    for resource in cache.stores:
        listed = api.list(resource)
        cache.replace(resource, listed.items, revision=listed.resource_version)
        since = WatchOptions(resource_version=listed.resource_version)
        stops.append(start_watch(api, clock, resource, _update_handler(cache, resource), options=since))
    return stops


def _update_handler(cache: ClusterCache, resource: Resource) -> Any:
    def handle(event: WatchEvent) -> None:
        if event.type is EventType.DELETED:
            cache.delete(resource, event.object)
        else:
            cache.apply_event(resource, event.object)

    return handle
