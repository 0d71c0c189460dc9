"""API server in memory: get, list, watch, create, update, patch, apply, delete.

``simulator.kube_client`` offers it to controllers as a ``KubeClient``, and
``simulator.rest`` to kubectl over HTTPS. See the package for the request path.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from dovetail.ports.api_resources import CUSTOM_RESOURCE_DEFINITIONS, LEASES, NAMESPACES, PODS, Resource
from dovetail.ports.kube_errors import BadRequest, Invalid, NotFound, UnsupportedMediaType
from dovetail.simulator.apiserver.admission.validation import check_structure
from dovetail.simulator.apiserver.custom_kinds import CustomKinds
from dovetail.simulator.apiserver.delete import Deleter
from dovetail.simulator.apiserver.options import (
    DEFAULT_WRITE_OPTIONS,
    DeleteOptions,
    ListOptions,
    PatchType,
    WatchOptions,
    WriteOptions,
)
from dovetail.simulator.apiserver.patch.json_patch import apply_json_patch, apply_merge_patch
from dovetail.simulator.apiserver.patch.server_side_apply import FieldManager, apply_configuration
from dovetail.simulator.apiserver.patch.strategic_merge import apply_strategic_merge_patch
from dovetail.simulator.apiserver.pdb import PdbCounter
from dovetail.simulator.apiserver.storage.frozen_object import FrozenObject, Object
from dovetail.simulator.apiserver.storage.pagination import ObjectList, Paginator
from dovetail.simulator.apiserver.storage.selectors import (
    SelectionPredicate,
    parse_field_selector,
    parse_label_selector,
)
from dovetail.simulator.apiserver.storage.store import Change, Store, object_key
from dovetail.simulator.apiserver.storage.watch import (
    EventType,
    Watch,
    WatchBroadcaster,
    WatchEvent,
    bookmark_event,
    replay,
)
from dovetail.simulator.apiserver.subresources import apply_scale, bind_pod, encode_scale, evict_pod
from dovetail.simulator.apiserver.write import Writer, freeze_object

_INITIAL_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_DEFAULT_LIST_OPTIONS: Final = ListOptions()
_DEFAULT_WATCH_OPTIONS: Final = WatchOptions()
_DEFAULT_DELETE_OPTIONS: Final = DeleteOptions()


class ApiServer:
    """A Kubernetes API server in memory; ``now`` is the clock of its timestamps.

    Returned objects are frozen: callers may keep them, and edit a copy from ``thaw``.
    ``watch_cache_size`` is the number of changes kept per kind for watches and lists
    at an older resourceVersion, for five to ten minutes. Not thread-safe.
    """

    def __init__(self, *, now: Callable[[], datetime], watch_cache_size: int = 10_000) -> None:
        self._broadcaster = WatchBroadcaster()
        self._store = Store(on_change=self._handle_change, now=now, watch_cache_size=watch_cache_size)
        self._pdb_counter = PdbCounter(self._store)
        self._deleter = Deleter(self._store, now=now)
        self.custom_kinds = CustomKinds(self._store)
        self._writer = Writer(self._store, self._deleter, self.custom_kinds, now=now)
        self._paginator = Paginator()
        self.on_lease_read: Callable[[str], None] = lambda _: None
        """Called before a Lease is read by its name, or all by "", to write late renewals."""
        self.on_lease_watch: Callable[[], None] = lambda: None
        """Called before Leases are watched: from then on every renewal is seen."""
        for name in _INITIAL_NAMESPACES:
            self.create(NAMESPACES, {"metadata": {"name": name}})

    @property
    def resource_version(self) -> str:
        return str(self._store.revision)

    def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Object:
        """Return one object; ``subresource`` may be ``status`` or ``scale``."""
        if resource is LEASES:
            self.on_lease_read(name)
        obj = self._find(resource, name, namespace)
        _check_subresource(resource, subresource)
        return encode_scale(obj) if subresource == "scale" else obj

    def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        namespace: str = "",
        *,
        options: WriteOptions = DEFAULT_WRITE_OPTIONS,
    ) -> Object:
        """Store a new object under its name, or under one generated from generateName."""
        return self._writer.create(resource, obj, namespace=namespace, options=options)

    def restore(self, resource: Resource, obj: Object) -> Object:
        """Store a recorded object as it is: uid, times, status and owners are kept.

        Without admission, validation and garbage collection.
        """
        old = self._store.get(resource, object_key(obj))
        if old is not None:
            self._store.remove(resource, old)
        self._writer.reserve_uid(obj["metadata"]["uid"])
        return self._store.put(resource, obj, old=None)

    def track_fields(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Track the field managers of an object that has none, from now on.

        Otherwise its fields would belong to a manager from before the first apply, and no later
        apply could remove them.
        """
        old = self._find(resource, name, namespace)
        if not old["metadata"].get("managedFields"):
            meta = {**old["metadata"], "managedFields": [_NO_FIELDS_ENTRY]}
            self._store.put(resource, freeze_object({**old, "metadata": meta}), old=old)

    def update(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        subresource: str = "",
        options: WriteOptions = DEFAULT_WRITE_OPTIONS,
    ) -> Object:
        """Replace an object; Conflict if its resourceVersion is not the newest."""
        check_structure(obj)
        meta = obj.get("metadata") or {}
        old = self._find(resource, meta.get("name", ""), meta.get("namespace", ""))
        _check_subresource(resource, subresource)
        if subresource == "scale":
            return self._write_scale(resource, old, obj, options)
        return self._writer.update(resource, old, obj, subresource=subresource, options=options)

    def renew_lease(self, name: str, namespace: str, *, renew_time: str) -> Object:
        """Update renewTime of a Lease.

        Skips defaulting, validation and managedFields: this is the most frequent write.
        """
        old = self._find(LEASES, name, namespace)
        spec = FrozenObject({**(old.get("spec") or {}), "renewTime": renew_time})
        return self._store.put(LEASES, FrozenObject({**old, "spec": spec}), old=old)

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        patch_type: PatchType,
        namespace: str = "",
        *,
        subresource: str = "",
        options: WriteOptions = DEFAULT_WRITE_OPTIONS,
    ) -> Object:
        """Patch an object."""
        new = self.compute_patched_object(
            resource, name, patch, patch_type, namespace, subresource=subresource
        )
        old = self._find(resource, name, namespace)
        if subresource == "scale":
            return self._write_scale(resource, old, new, options)
        check_structure(new)
        return self._writer.update(resource, old, new, subresource=subresource, options=options)

    def compute_patched_object(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        patch_type: PatchType,
        namespace: str = "",
        *,
        subresource: str = "",
        convert: Callable[[Object], Object] = lambda obj: obj,
    ) -> Mapping[str, Any]:
        """Return the patched object without validating or storing it.

        ``convert`` returns the object in the version that the patch is for.
        """
        base = convert(self.get(resource, name, namespace, subresource=subresource))
        return _apply_patch(resource, base, patch, patch_type)

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
        """Server-side apply a manager's configuration; creates the object if missing."""
        check_structure(config)
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
        options = WriteOptions(field_manager=manager, dry_run=dry_run)
        field_manager = FieldManager(manager, "Apply", subresource)
        stripped = _strip_configuration(resource, config, subresource)
        now = self._writer.timestamp()
        old = self._store.get(resource, (namespace if resource.namespaced else "", meta["name"]))
        if old is None:
            if subresource:
                raise _not_found_error(resource, meta["name"])
            seed = {"metadata": {"managedFields": [_NO_FIELDS_ENTRY]}}
            new = apply_configuration(
                resource, freeze_object(seed), stripped, field_manager, force=force, now=now
            )
            return self._writer.create(resource, new, namespace=namespace, options=options)
        if meta.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            raise _not_found_error(resource, meta["name"])
        new = apply_configuration(resource, old, stripped, field_manager, force=force, now=now)
        return self._writer.save_applied(resource, old, new, subresource=subresource, options=options)

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        options: DeleteOptions = _DEFAULT_DELETE_OPTIONS,
    ) -> Object:
        """Delete an object once its finalizers, grace period and dependents allow it."""
        return self._deleter.delete(resource, self._find(resource, name, namespace), options)

    def delete_collection(
        self,
        resource: Resource,
        list_options: ListOptions = _DEFAULT_LIST_OPTIONS,
        *,
        options: DeleteOptions = _DEFAULT_DELETE_OPTIONS,
    ) -> Sequence[Object]:
        """Delete all selected objects (``deletecollection``)."""
        deleted = []
        for listed in self.list(resource, list_options).items:
            meta = listed["metadata"]
            obj = self._store.get(resource, (meta.get("namespace", ""), meta["name"]))
            if obj is not None:
                deleted.append(self._deleter.delete(resource, obj, options))
        return deleted

    def evict(self, name: str, namespace: str, *, options: DeleteOptions = _DEFAULT_DELETE_OPTIONS) -> None:
        """Evict a pod; TooManyRequests if its PodDisruptionBudget forbids it now."""
        pod = self._find(PODS, name, namespace)
        evict_pod(self._store, self._writer, self._deleter, pod, options, pdb_counter=self._pdb_counter)

    def bind(self, name: str, namespace: str, binding: Mapping[str, Any]) -> Object:
        """Bind a pod to the node in ``binding["target"]["name"]``."""
        return bind_pod(self._writer, self._find(PODS, name, namespace), binding)

    def list(self, resource: Resource, options: ListOptions = _DEFAULT_LIST_OPTIONS) -> ObjectList:
        """Return the selected objects of one resourceVersion, by namespace and name."""
        if options.continue_token:
            return self._paginator.next_page(resource, options.continue_token, options.limit)
        if resource is LEASES:
            self.on_lease_read("")
        predicate = _predicate(resource, options, self.custom_kinds)
        collection = self._store.collections[resource]
        revision = _parse_revision(options.resource_version)
        self._store.check_resource_version(revision)
        if options.exact and revision:
            items = collection.select_at(predicate, revision)
            return self._paginator.first_page(resource, items, str(revision), options.limit)
        items = collection.select(predicate)
        return self._paginator.first_page(resource, items, self.resource_version, options.limit)

    def watch(
        self,
        resource: Resource,
        options: WatchOptions = _DEFAULT_WATCH_OPTIONS,
        *,
        notify: Callable[[], None] | None = None,
    ) -> Watch:
        """Watch the selected objects; Gone if the resourceVersion is compacted.

        ``notify`` is called when the event queue stops being empty; see ``Watch``.
        """
        if resource is LEASES:
            self.on_lease_read("")
            self.on_lease_watch()
        predicate = _predicate(resource, options, self.custom_kinds)
        collection = self._store.collections[resource]
        revision = _parse_revision(options.resource_version)
        self._store.check_resource_version(revision)
        missed = collection.changes_since(revision) if revision and not options.send_initial_events else None
        watch = self._broadcaster.open(
            resource, predicate, allow_bookmarks=options.allow_bookmarks, notify=notify
        )
        if missed is not None:
            replay(watch, missed)
            return watch
        for obj in collection.select(predicate):
            watch.enqueue(WatchEvent(EventType.ADDED, obj))
        if options.send_initial_events:
            watch.enqueue(bookmark_event(resource, self._store.revision, ends_initial_events=True))
        return watch

    def send_bookmarks(self) -> None:
        """Send a bookmark to all watches that allow it; Kubernetes does so every minute."""
        self._broadcaster.send_bookmarks(self._store.revision)

    def compact(self) -> None:
        """Compact the history: watches from an older resourceVersion get Gone."""
        self._store.compact(self._store.revision)

    def _handle_change(self, resource: Resource, change: Change) -> None:
        self._pdb_counter.handle_change(resource, change)
        self._broadcaster.publish(resource, change)
        if resource is CUSTOM_RESOURCE_DEFINITIONS:
            removed = self.custom_kinds.handle_change(change)
            if removed is not None:
                self._broadcaster.close(removed)

    def _find(self, resource: Resource, name: str, namespace: str) -> Object:
        obj = self._store.get(resource, (namespace if resource.namespaced else "", name))
        if obj is None:
            raise _not_found_error(resource, name)
        return obj

    def _write_scale(
        self, resource: Resource, old: Object, scale: Mapping[str, Any], options: WriteOptions
    ) -> Object:
        new = apply_scale(old, scale)
        check_structure(new)
        return encode_scale(
            self._writer.update(resource, old, new, options=options, manager_subresource="scale")
        )


_NO_FIELDS_ENTRY: Final = {"manager": "none", "operation": "Update", "fieldsV1": {}}
"""Entry without fields: managedFields of a new object are tracked from the start."""


def _not_found_error(resource: Resource, name: str) -> NotFound:
    return NotFound(f'{resource.qualified_name} "{name}" not found', kind=resource.plural, name=name)


def _check_subresource(resource: Resource, subresource: str) -> None:
    if subresource and (subresource not in resource.subresources or subresource not in ("status", "scale")):
        raise NotFound("the server could not find the requested resource")


def _predicate(
    resource: Resource, options: ListOptions | WatchOptions, kinds: CustomKinds
) -> SelectionPredicate:
    namespace = options.namespace if resource.namespaced else ""
    custom = kinds.selectable_fields(resource) if options.field_selector else ()
    fields = parse_field_selector(options.field_selector, resource.plural, custom)
    return SelectionPredicate(namespace, parse_label_selector(options.label_selector), fields)


def _parse_revision(text: str) -> int:
    if text and not (text.isascii() and text.isdigit()):
        raise BadRequest(f"resourceVersion: Invalid value: {text!r}")
    return int(text or "0")


def _apply_patch(
    resource: Resource,
    base: Object,
    patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    patch_type: PatchType,
) -> Mapping[str, Any]:
    if patch_type == PatchType.JSON and not isinstance(patch, Mapping):
        new = apply_json_patch(base, patch)
    elif patch_type == PatchType.MERGE and isinstance(patch, dict):
        new = apply_merge_patch(base, patch)
    elif patch_type == PatchType.STRATEGIC and isinstance(patch, dict):
        if resource.is_custom:
            raise UnsupportedMediaType(f"{resource.qualified_name} does not support strategic merge patch")
        new = apply_strategic_merge_patch(resource, base, patch)
    else:
        raise BadRequest(f"{patch_type} does not accept a {type(patch).__name__}")
    if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
        raise BadRequest("the patched document is not an object with metadata")
    return new


def _strip_configuration(
    resource: Resource, config: Mapping[str, Any], subresource: str
) -> Mapping[str, Any]:
    """Return the part of a configuration that may be applied through a (sub)resource.

    The status belongs to its subresource, all other fields to the object itself.
    """
    if subresource:
        stripped = {"metadata": {"name": config["metadata"]["name"]}}
        return stripped | {name: value for name, value in config.items() if name == subresource}
    if resource.has_status:
        return {name: value for name, value in config.items() if name != "status"}
    return config
