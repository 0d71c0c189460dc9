"""The verbs of the API server: what ports.kube will be made of."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from dovetail.ports.api_resources import LEASES, NAMESPACES, PODS, Resource
from dovetail.ports.kube_errors import BadRequest, Invalid, NotFound, UnsupportedMediaType
from dovetail.simulator.apiserver.admission.validation import check_shape
from dovetail.simulator.apiserver.delete import DeleteOptions, Deleter
from dovetail.simulator.apiserver.options import ListOptions, PatchType, WatchOptions
from dovetail.simulator.apiserver.patch.json_patch import json_patch, merge_patch
from dovetail.simulator.apiserver.patch.server_side_apply import Manager, apply
from dovetail.simulator.apiserver.patch.strategic_merge import strategic_merge
from dovetail.simulator.apiserver.storage.frozen_object import FrozenObject, Object
from dovetail.simulator.apiserver.storage.pagination import ObjectList, Pager
from dovetail.simulator.apiserver.storage.selectors import Selection, parse_fields, parse_labels
from dovetail.simulator.apiserver.storage.store import Store
from dovetail.simulator.apiserver.storage.watch import (
    EventType,
    Watch,
    WatchEvent,
    WatchHub,
    bookmark,
    replay,
)
from dovetail.simulator.apiserver.subresources import bind, evict, scale_of, scaled
from dovetail.simulator.apiserver.write import PLAIN, WriteOptions, Writer, freeze_object

_FIRST_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_EVERYTHING: Final = ListOptions()
_FROM_THE_START: Final = WatchOptions()
_PLAIN_DELETE: Final = DeleteOptions()


class ApiServer:
    """A Kubernetes API server in memory, on somebody else's clock.

    What it returns is frozen: keep it as long as you like, edit ``thaw`` of it.
    """

    def __init__(self, *, now: Callable[[], datetime], remember: int = 10_000) -> None:
        self._hub = WatchHub()
        self._store = Store(on_change=self._hub.publish, remember=remember)
        self._deleter = Deleter(self._store, now=now)
        self._writer = Writer(self._store, self._deleter, now=now)
        self._pager = Pager()
        for name in _FIRST_NAMESPACES:
            self.create(NAMESPACES, {"metadata": {"name": name}})

    @property
    def resource_version(self) -> str:
        return str(self._store.revision)

    def get(
        self, resource: Resource, name: str, namespace: str = "", *, subresource: str = ""
    ) -> Object:
        """Return one object; ``subresource`` may be ``status`` or ``scale``."""
        obj = self._find(resource, name, namespace)
        _check_subresource(resource, subresource)
        return scale_of(obj) if subresource == "scale" else obj

    def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        namespace: str = "",
        *,
        options: WriteOptions = PLAIN,
    ) -> Object:
        """Store a new object under its name, or one made from its generateName."""
        return self._writer.create(resource, obj, namespace=namespace, options=options)

    def update(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        subresource: str = "",
        options: WriteOptions = PLAIN,
    ) -> Object:
        """Replace an object; Conflict if its resourceVersion is not the newest."""
        check_shape(obj)
        meta = obj.get("metadata") or {}
        old = self._find(resource, meta.get("name", ""), meta.get("namespace", ""))
        _check_subresource(resource, subresource)
        if subresource == "scale":
            return self._write_scale(resource, old, obj, options)
        return self._writer.update(resource, old, obj, subresource=subresource, options=options)

    def renew(self, name: str, namespace: str, *, at: str) -> Object:
        """Move a lease on: the write that comes most often, and can break no rule."""
        old = self._find(LEASES, name, namespace)
        spec = FrozenObject({**old["spec"], "renewTime": at})
        return self._store.put(LEASES, FrozenObject({**old, "spec": spec}), old=old)

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        how: PatchType,
        namespace: str = "",
        *,
        subresource: str = "",
        options: WriteOptions = PLAIN,
    ) -> Object:
        """Change part of an object."""
        new = self.patched(resource, name, patch, how, namespace, subresource=subresource)
        old = self._find(resource, name, namespace)
        if subresource == "scale":
            return self._write_scale(resource, old, new, options)
        return self._writer.update(resource, old, new, subresource=subresource, options=options)

    def patched(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        how: PatchType,
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> Mapping[str, Any]:
        """Return what a patch makes of an object, unchecked; ``update`` would store it."""
        base = self.get(resource, name, namespace, subresource=subresource)
        return _patched(resource, base, patch, how)

    def apply(
        self,
        resource: Resource,
        config: Mapping[str, Any],
        namespace: str = "",
        *,
        manager: str,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Make a manager's configuration true (server-side apply); creates what is missing."""
        check_shape(config)
        meta = config.get("metadata") or {}
        if not manager:
            raise Invalid(
                'PatchOptions.meta.k8s.io "" is invalid: fieldManager: '
                "Required value: is required for apply patch",
                kind="PatchOptions",
            )
        if not meta.get("name") or meta.get("managedFields"):
            raise BadRequest("apply needs metadata.name, and no managedFields")
        _check_subresource(resource, subresource)
        namespace = namespace or meta.get("namespace", "")
        options = WriteOptions(manager=manager, dry_run=dry_run)
        who = Manager(manager, "Apply", subresource)
        wanted = _appliable(resource, config, subresource)
        now = self._writer.timestamp()
        old = self._store.get(resource, (namespace if resource.namespaced else "", meta["name"]))
        if old is None:
            if subresource:
                raise _not_found(resource, meta["name"])
            seed = {"metadata": {"managedFields": [_NOBODY]}}
            new = apply(resource, freeze_object(seed), wanted, who, force=force, now=now)
            return self._writer.create(resource, new, namespace=namespace, options=options)
        if meta.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            raise _not_found(resource, meta["name"])
        new = apply(resource, old, wanted, who, force=force, now=now)
        return self._writer.save_applied(
            resource, old, new, subresource=subresource, options=options
        )

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        options: DeleteOptions = _PLAIN_DELETE,
    ) -> Object:
        """Delete an object, or have it wait for its finalizers, grace or dependents."""
        return self._deleter.delete(resource, self._find(resource, name, namespace), options)

    def delete_all(
        self,
        resource: Resource,
        which: ListOptions = _EVERYTHING,
        *,
        options: DeleteOptions = _PLAIN_DELETE,
    ) -> Sequence[Object]:
        """Delete everything selected (a deletecollection)."""
        deleted = []
        for listed in self.list(resource, which).items:
            meta = listed["metadata"]
            obj = self._store.get(resource, (meta.get("namespace", ""), meta["name"]))
            if obj is not None:
                deleted.append(self._deleter.delete(resource, obj, options))
        return deleted

    def evict(self, name: str, namespace: str, *, options: DeleteOptions = _PLAIN_DELETE) -> None:
        """Delete a pod unless a PodDisruptionBudget forbids it now (TooManyRequests)."""
        pod = self._find(PODS, name, namespace)
        evict(self._store, self._writer, self._deleter, pod, options)

    def bind(self, name: str, namespace: str, binding: Mapping[str, Any]) -> Object:
        """Assign a pod to the node that ``binding["target"]["name"]`` names."""
        return bind(self._writer, self._find(PODS, name, namespace), binding)

    def list(self, resource: Resource, which: ListOptions = _EVERYTHING) -> ObjectList:
        """Return the objects selected, by namespace and name, all from one moment."""
        if which.continue_from:
            return self._pager.following(resource, which.continue_from, which.limit)
        selection = _selection(resource, which)
        collection = self._store.collections[resource]
        revision = _revision(which.resource_version)
        self._store.check_reached(revision)
        if which.exact and revision:
            items = collection.select_at(selection, revision)
            return self._pager.first(resource, items, str(revision), which.limit)
        items = collection.select(selection)
        return self._pager.first(resource, items, self.resource_version, which.limit)

    def watch(
        self,
        resource: Resource,
        which: WatchOptions = _FROM_THE_START,
        *,
        notify: Callable[[], None] | None = None,
    ) -> Watch:
        """Follow what happens to the objects selected; Gone if that is too long ago."""
        selection = _selection(resource, which)
        collection = self._store.collections[resource]
        revision = _revision(which.resource_version)
        self._store.check_reached(revision)
        missed = collection.since(revision) if revision and not which.initial_events else None
        watch = self._hub.open(resource, selection, bookmarks=which.bookmarks, notify=notify)
        if missed is not None:
            replay(watch, missed)
            return watch
        for obj in collection.select(selection):
            watch.push(WatchEvent(EventType.ADDED, obj))
        if which.initial_events:
            watch.push(bookmark(resource, self._store.revision, ends_list=True))
        return watch

    def send_bookmarks(self) -> None:
        """Tell watchers that asked for bookmarks how far they are; Kubernetes does each minute."""
        self._hub.bookmark(self._store.revision)

    def compact(self) -> None:
        """Forget all history, so that watches from the past get Gone."""
        for collection in self._store.collections.values():
            collection.compact(self._store.revision)

    def _find(self, resource: Resource, name: str, namespace: str) -> Object:
        obj = self._store.get(resource, (namespace if resource.namespaced else "", name))
        if obj is None:
            raise _not_found(resource, name)
        return obj

    def _write_scale(
        self, resource: Resource, old: Object, scale: Mapping[str, Any], options: WriteOptions
    ) -> Object:
        new = scaled(old, scale)
        return scale_of(self._writer.update(resource, old, new, options=options, through="scale"))


_NOBODY: Final = {"manager": "nobody", "operation": "Update", "fieldsV1": {}}
"""Owns nothing; says that ownership is kept from the start."""


def _not_found(resource: Resource, name: str) -> NotFound:
    return NotFound(f'{resource.qualified} "{name}" not found', kind=resource.plural, name=name)


def _check_subresource(resource: Resource, subresource: str) -> None:
    if subresource and (
        subresource not in resource.subresources or subresource not in ("status", "scale")
    ):
        raise NotFound("the server could not find the requested resource")


def _selection(resource: Resource, which: ListOptions | WatchOptions) -> Selection:
    namespace = which.namespace if resource.namespaced else ""
    fields = parse_fields(which.fields, resource.plural)
    return Selection(namespace, parse_labels(which.labels), fields)


def _revision(text: str) -> int:
    if text and not (text.isascii() and text.isdigit()):
        raise BadRequest(f"resourceVersion: Invalid value: {text!r}")
    return int(text or "0")


def _patched(
    resource: Resource,
    base: Object,
    patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    how: PatchType,
) -> Mapping[str, Any]:
    if how == PatchType.JSON and not isinstance(patch, Mapping):
        new = json_patch(base, patch)
    elif how == PatchType.MERGE and isinstance(patch, dict):
        new = merge_patch(base, patch)
    elif how == PatchType.STRATEGIC and isinstance(patch, dict):
        if resource.custom:
            raise UnsupportedMediaType(f"{resource.qualified} takes no strategic merge patch")
        new = strategic_merge(resource, base, patch)
    else:
        raise BadRequest(f"{how} does not take a {type(patch).__name__}")
    if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
        raise BadRequest("the patch leaves no object with metadata")
    return new


def _appliable(
    resource: Resource, config: Mapping[str, Any], subresource: str
) -> Mapping[str, Any]:
    """Leave out what this door does not open: status here, all else there."""
    if subresource:
        wanted = {"metadata": {"name": config["metadata"]["name"]}}
        return wanted | {name: one for name, one in config.items() if name == subresource}
    if resource.has_status:
        return {name: one for name, one in config.items() if name != "status"}
    return config
