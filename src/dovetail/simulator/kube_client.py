"""``ports.kube_client.Kube`` on the in-memory API server, and the watches that feed a mirror."""

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.delete import DeleteOptions
from dovetail.simulator.apiserver.options import ListOptions, PatchType, WatchOptions
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import Engine
from dovetail.simulator.workqueue import follow
from dovetail.state.cluster.cache import Mirror


class SimKube:
    """The verbs; each answers at once."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return self._api.get(resource, name, namespace)

    async def list(
        self, resource: Resource, *, labels: str = "", fields: str = ""
    ) -> Sequence[Object]:
        return self._api.list(resource, ListOptions(labels=labels, fields=fields)).items

    async def create(
        self, resource: Resource, obj: Mapping[str, Any], namespace: str = ""
    ) -> Object:
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
        return self._api.patch(
            resource, name, patch, PatchType.MERGE, namespace, subresource=subresource
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> Object | None:
        options = DeleteOptions(uid=uid, grace_seconds=grace_seconds)
        self._api.delete(resource, name, namespace, options=options)
        try:
            return self._api.get(resource, name, namespace)
        except NotFound:
            return None

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        self._api.evict(name, namespace, options=DeleteOptions(uid=uid))


def feed(mirror: Mirror, api: ApiServer, engine: Engine) -> list[Any]:
    """Fill a mirror and keep it up to date; returns how to stop, one call a kind."""
    stops = []
    for resource in mirror.tables:
        listed = api.list(resource)
        mirror.replace(resource, listed.items, revision=listed.resource_version)
        since = WatchOptions(resource_version=listed.resource_version)
        stops.append(follow(api, engine, resource, _teller(mirror, resource), which=since))
    return stops


def _teller(mirror: Mirror, resource: Resource) -> Any:
    def tell(event: WatchEvent) -> None:
        if event.type is EventType.DELETED:
            mirror.remove(resource, event.object)
        else:
            mirror.put(resource, event.object)

    return tell
