"""The simulated API server, called directly."""

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.ports.api_resources import NAMESPACES, PODS, Resource
from dovetail.simulator.apiserver.options import (
    DeleteOptions,
    ListOptions,
    PatchType,
    PropagationPolicy,
    WatchOptions,
    WriteOptions,
)
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from dovetail.simulator.apiserver.storage.watch import EventType, Watch
from tests.contract.apiserver.subject import MERGE, Event, Object, WatchHandle
from tests.support.simulator.api_server import Cluster


class InMemoryWatch:
    """A watch whose events are available at once."""

    def __init__(self, cluster: Cluster, watch: Watch) -> None:
        self._cluster = cluster
        self._watch = watch
        self._events: list[Event] = []
        self._bookmarks: list[Object] = []

    def next_events(self, count: int) -> list[Event]:
        self._poll()
        taken, self._events = self._events[:count], self._events[count:]
        assert len(taken) == count, f"only {taken}"
        return taken

    def next_bookmark(self) -> Object:
        self._poll()
        if not self._bookmarks:
            self._cluster.send_bookmarks()
            self._poll()
        return self._bookmarks.pop(0)

    def stop(self) -> None:
        self._watch.stop()

    def _poll(self) -> None:
        for event in self._watch.poll():
            if event.type is EventType.BOOKMARK:
                self._bookmarks.append(thaw(event.object))
            else:
                self._events.append((event.type.value, thaw(event.object)))


class InMemoryServer:
    """The server in this process; its garbage collection is synchronous."""

    namespace = "contract"

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.create(NAMESPACES, {"metadata": {"name": self.namespace}})

    def unique(self, name: str) -> str:
        return name

    def wait_for_controllers(self) -> None:
        pass

    def compacted_version(self) -> str:
        old = self.cluster.resource_version
        self.cluster.create(NAMESPACES, {"metadata": {"name": "later"}})
        self.cluster.compact()
        return old

    def get(self, resource: Resource, name: str, *, namespace: str = "", subresource: str = "") -> Object:
        where = self._namespace(resource, namespace)
        obj: Object = thaw(self.cluster.get(resource, name, where, subresource=subresource))
        return obj

    def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        namespace: str = "",
        manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        options = WriteOptions(field_manager=manager, dry_run=dry_run)
        where = self._namespace(resource, namespace)
        created: Object = thaw(self.cluster.create(resource, obj, where, options=options))
        return created

    def update(
        self, resource: Resource, obj: Mapping[str, Any], *, subresource: str = "", manager: str = ""
    ) -> Object:
        if resource.namespaced:
            meta = {"namespace": self.namespace, **obj["metadata"]}
            obj = {**obj, "metadata": meta}
        options = WriteOptions(field_manager=manager)
        written: Object = thaw(self.cluster.update(resource, obj, subresource=subresource, options=options))
        return written

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        patch_type: str = MERGE,
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
                PatchType(patch_type),
                self._namespace(resource, namespace),
                subresource=subresource,
                options=WriteOptions(field_manager=manager, dry_run=dry_run),
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
                self._namespace(resource, ""),
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
        grace_period_seconds: int | None = None,
        propagation_policy: str = "Background",
        uid: str = "",
        resource_version: str = "",
        dry_run: bool = False,
    ) -> None:
        options = DeleteOptions(
            grace_period_seconds, PropagationPolicy(propagation_policy), uid, resource_version, dry_run
        )
        self.cluster.delete(resource, name, self._namespace(resource, namespace), options=options)

    def delete_collection(self, resource: Resource, *, label_selector: str) -> None:
        which = ListOptions(namespace=self._namespace(resource, ""), label_selector=label_selector)
        self.cluster.delete_collection(resource, which)

    def list(
        self,
        resource: Resource,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        exact: bool = False,
    ) -> Object:
        which = ListOptions(
            self._namespace(resource, ""),
            label_selector,
            field_selector,
            limit,
            continue_token,
            resource_version,
            exact,
        )
        page: Object = thaw(self.cluster.list(resource, which).encode())
        return page

    def watch(
        self,
        resource: Resource,
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        allow_bookmarks: bool = False,
        send_initial_events: bool = False,
    ) -> WatchHandle:
        which = WatchOptions(
            self._namespace(resource, ""),
            label_selector,
            field_selector,
            resource_version,
            allow_bookmarks,
            send_initial_events,
        )
        return InMemoryWatch(self.cluster, self.cluster.watch(resource, which))

    def evict(self, name: str, *, uid: str = "", resource_version: str = "", dry_run: bool = False) -> None:
        options = DeleteOptions(uid=uid, resource_version=resource_version, dry_run=dry_run)
        self.cluster.evict(name, self._namespace(PODS, ""), options=options)

    def bind(self, name: str, binding: Mapping[str, Any]) -> None:
        self.cluster.bind(name, self._namespace(PODS, ""), binding)

    def _namespace(self, resource: Resource, namespace: str) -> str:
        return (namespace or self.namespace) if resource.namespaced else ""
