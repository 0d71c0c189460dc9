"""The simulated API server, called directly."""

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.ports.api_resources import NAMESPACES, PODS, Resource
from dovetail.simulator.apiserver.delete import DeleteOptions, Propagation
from dovetail.simulator.apiserver.options import ListOptions, PatchType, WatchOptions
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from dovetail.simulator.apiserver.storage.watch import EventType, Watch
from dovetail.simulator.apiserver.write import WriteOptions
from tests.contract.apiserver.subject import MERGE, Event, Object, Watching
from tests.support.cluster import Cluster


class InMemoryWatching:
    """Events that are there at once, or never."""

    def __init__(self, cluster: Cluster, watch: Watch) -> None:
        self._cluster = cluster
        self._watch = watch
        self._events: list[Event] = []
        self._bookmarks: list[Object] = []

    def take(self, count: int) -> list[Event]:
        self._look()
        taken, self._events = self._events[:count], self._events[count:]
        assert len(taken) == count, f"only {taken}"
        return taken

    def bookmark(self) -> Object:
        self._look()
        if not self._bookmarks:
            self._cluster.send_bookmarks()
            self._look()
        return self._bookmarks.pop(0)

    def stop(self) -> None:
        self._watch.stop()

    def _look(self) -> None:
        for one in self._watch.take():
            if one.type is EventType.BOOKMARK:
                self._bookmarks.append(thaw(one.object))
            else:
                self._events.append((one.type.value, thaw(one.object)))


class InMemory:
    """The server in this process; what controllers of Kubernetes do is done at once."""

    namespace = "contract"

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.create(NAMESPACES, {"metadata": {"name": self.namespace}})

    def unique(self, name: str) -> str:
        return name

    def settle(self) -> None:
        pass

    def an_old_version(self) -> str:
        old = self.cluster.resource_version
        self.cluster.create(NAMESPACES, {"metadata": {"name": "later"}})
        self.cluster.compact()
        return old

    def get(
        self, resource: Resource, name: str, *, namespace: str = "", subresource: str = ""
    ) -> Object:
        where = self._where(resource, namespace)
        found: Object = thaw(self.cluster.get(resource, name, where, subresource=subresource))
        return found

    def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        namespace: str = "",
        manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        options = WriteOptions(manager=manager, dry_run=dry_run)
        where = self._where(resource, namespace)
        made: Object = thaw(self.cluster.create(resource, obj, where, options=options))
        return made

    def update(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        subresource: str = "",
        manager: str = "",
    ) -> Object:
        if resource.namespaced:
            meta = {"namespace": self.namespace, **obj["metadata"]}
            obj = {**obj, "metadata": meta}
        options = WriteOptions(manager=manager)
        written: Object = thaw(
            self.cluster.update(resource, obj, subresource=subresource, options=options)
        )
        return written

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        how: str = MERGE,
        *,
        namespace: str = "",
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        written: Object = thaw(
            self.cluster.patch(
                resource,
                name,
                patch,
                PatchType(how),
                self._where(resource, namespace),
                subresource=subresource,
                options=WriteOptions(manager=manager, dry_run=dry_run),
            )
        )
        return written

    def apply(
        self,
        resource: Resource,
        config: Mapping[str, Any],
        *,
        manager: str,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        written: Object = thaw(
            self.cluster.apply(
                resource,
                config,
                self._where(resource, ""),
                manager=manager,
                force=force,
                subresource=subresource,
                dry_run=dry_run,
            )
        )
        return written

    def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        grace_seconds: int | None = None,
        propagation: str = "Background",
        uid: str = "",
        resource_version: str = "",
        dry_run: bool = False,
    ) -> None:
        options = DeleteOptions(
            grace_seconds, Propagation(propagation), uid, resource_version, dry_run
        )
        self.cluster.delete(resource, name, self._where(resource, namespace), options=options)

    def delete_all(self, resource: Resource, *, labels: str) -> None:
        which = ListOptions(namespace=self._where(resource, ""), labels=labels)
        self.cluster.delete_all(resource, which)

    def list(
        self,
        resource: Resource,
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_from: str = "",
        resource_version: str = "",
        exact: bool = False,
    ) -> Object:
        which = ListOptions(
            self._where(resource, ""),
            labels,
            fields,
            limit,
            continue_from,
            resource_version,
            exact,
        )
        found: Object = thaw(self.cluster.list(resource, which).wire())
        return found

    def watch(
        self,
        resource: Resource,
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        bookmarks: bool = False,
        initial_events: bool = False,
    ) -> Watching:
        which = WatchOptions(
            self._where(resource, ""), labels, fields, resource_version, bookmarks, initial_events
        )
        return InMemoryWatching(self.cluster, self.cluster.watch(resource, which))

    def evict(
        self, name: str, *, uid: str = "", resource_version: str = "", dry_run: bool = False
    ) -> None:
        options = DeleteOptions(uid=uid, resource_version=resource_version, dry_run=dry_run)
        self.cluster.evict(name, self._where(PODS, ""), options=options)

    def bind(self, name: str, binding: Mapping[str, Any]) -> None:
        self.cluster.bind(name, self._where(PODS, ""), binding)

    def _where(self, resource: Resource, namespace: str) -> str:
        return (namespace or self.namespace) if resource.namespaced else ""
