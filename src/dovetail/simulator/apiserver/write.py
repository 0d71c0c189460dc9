"""Creating and changing objects: what the server decides and what the writer may."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from dovetail.ports.api_resources import NAMESPACES, PODS, Resource
from dovetail.ports.kube_errors import AlreadyExists, BadRequest, Forbidden, Invalid, NotFound
from dovetail.simulator.apiserver.admission.defaults import begin, fill_in
from dovetail.simulator.apiserver.admission.identity import check_identity, check_times, type_of
from dovetail.simulator.apiserver.admission.priority import Priorities
from dovetail.simulator.apiserver.admission.validation import Checker, check_shape
from dovetail.simulator.apiserver.delete import Deleter
from dovetail.simulator.apiserver.generated_names import Naming
from dovetail.simulator.apiserver.patch.server_side_apply import Manager, track_update
from dovetail.simulator.apiserver.storage.frozen_object import Object, freeze
from dovetail.simulator.apiserver.storage.store import Store
from dovetail.simulator.apiserver.timestamps import timestamp


class WriteOptions(msgspec.Struct, frozen=True):
    """Who writes (for managedFields) and whether it counts."""

    manager: str = ""
    dry_run: bool = False


PLAIN: Final = WriteOptions()

_KEPT_METADATA: Final = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)
"""What no writer can change."""

_NOT_FOR_AUTHORS: Final = ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds")
_EMPTY_IS_ABSENT: Final = ("labels", "annotations", "finalizers", "ownerReferences")
_EMPTY_CONTENT_IS_ABSENT: Final = ("data", "binaryData")
"""Of ConfigMaps and Secrets."""


class Writer:
    """Completes, checks and stores what others want to write."""

    def __init__(self, store: Store, deleter: Deleter, *, now: Callable[[], datetime]) -> None:
        self._store = store
        self._deleter = deleter
        self._naming = Naming()
        self._checker = Checker()
        self._priorities = Priorities(store)
        self._now = now

    def timestamp(self) -> str:
        return timestamp(self._now())

    def create(
        self, resource: Resource, obj: Mapping[str, Any], *, namespace: str, options: WriteOptions
    ) -> Object:
        """Store a new object, completed by what the server decides."""
        check_shape(obj)
        new: dict[str, Any] = {**obj, **type_of(resource, obj)}
        meta = new["metadata"] = dict(obj.get("metadata") or {})
        if meta.get("resourceVersion"):
            raise BadRequest("resourceVersion should not be set on objects to be created")
        self._place(resource, meta, namespace)
        self._name(resource, meta)
        for field in _NOT_FOR_AUTHORS:
            meta.pop(field, None)
        _drop_empty(meta)
        if not resource.custom:
            _drop_empty(new, _EMPTY_CONTENT_IS_ABSENT)
        meta["uid"] = self._naming.uid()
        meta["creationTimestamp"] = self.timestamp()
        if resource.counts_generations:
            meta["generation"] = 1
        begin(resource, new)
        if resource is PODS:
            self._priorities.give(new)
        self._checker.check_new(resource, new)
        if options.manager and "managedFields" not in meta:
            manager = Manager(options.manager, "Update")
            meta["managedFields"] = track_update(resource, None, new, manager, now=self.timestamp())
        if options.dry_run:
            return freeze_object(new)
        return self._deleter.settle(resource, self._store.put(resource, new, old=None))

    def update(
        self,
        resource: Resource,
        old: Object,
        given: Mapping[str, Any],
        *,
        subresource: str = "",
        through: str = "",
        options: WriteOptions,
    ) -> Object:
        """Store a changed object if nobody wrote in between; the same again is no write.

        ``through`` names a subresource that shows the object as another kind.
        """
        new = self._changed(resource, old, given, subresource)
        if new == old:
            return old
        self._checker.check_change(resource, old, new)
        if options.manager or old["metadata"].get("managedFields"):
            manager = Manager(options.manager or "unknown", "Update", subresource or through)
            owned = track_update(resource, old, new, manager, now=self.timestamp())
            new = _with_managed_fields(new, owned)
        return self.save(resource, old, new, options)

    def save_applied(
        self,
        resource: Resource,
        old: Object,
        applied: Mapping[str, Any],
        *,
        subresource: str,
        options: WriteOptions,
    ) -> Object:
        """Store the outcome of a server-side apply, which brings its own managedFields."""
        new = self._changed(resource, old, applied, subresource)
        new = _with_managed_fields(new, applied["metadata"]["managedFields"])
        if new == old:
            return old
        self._checker.check_change(resource, old, new)
        return self.save(resource, old, new, options)

    def save(
        self, resource: Resource, old: Object, new: Mapping[str, Any], options: WriteOptions = PLAIN
    ) -> Object:
        """Store a change as it is, and do what it was waited for."""
        frozen = freeze_object(new)
        if options.dry_run:
            return frozen
        saved = self._store.put(resource, frozen, old=old)
        self._deleter.release_owners(old, saved)
        return self._deleter.settle(resource, saved)

    def _changed(
        self, resource: Resource, old: Object, given: Mapping[str, Any], subresource: str
    ) -> Object:
        check_shape(given)
        check_identity(resource, old, given)
        if subresource == "status":
            new = {name: value for name, value in old.items() if name != "status"}
            if given.get("status") is not None:
                new["status"] = given["status"]
            return freeze_object(new)
        check_times(resource, old, given["metadata"])
        new = {**given, **type_of(resource, given), "metadata": _metadata(old, given["metadata"])}
        if resource.has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        if not resource.custom:
            _drop_empty(new, _EMPTY_CONTENT_IS_ABSENT)
        fill_in(resource, new)
        frozen = freeze_object(new)
        if resource.counts_generations and _content(frozen) != _content(old):
            meta = {**frozen["metadata"], "generation": old["metadata"]["generation"] + 1}
            return freeze_object({**frozen, "metadata": meta})
        return frozen

    def _place(self, resource: Resource, meta: dict[str, Any], namespace: str) -> None:
        if not resource.namespaced:
            meta.pop("namespace", None)
            return
        own = meta.get("namespace") or namespace
        if not own:
            raise BadRequest("an empty namespace may not be set during creation")
        if namespace and own != namespace:
            raise BadRequest(
                f"the namespace of the provided object does not match the namespace sent "
                f"on the request: {own} is not {namespace}"
            )
        home = self._store.get(NAMESPACES, ("", own))
        if home is None:
            raise NotFound(f'namespaces "{own}" not found', kind="namespaces", name=own)
        if home["metadata"].get("deletionTimestamp"):
            name = meta.get("name") or meta.get("generateName", "")
            raise Forbidden(
                f'{resource.qualified} "{name}" is forbidden: unable to create new content '
                f"in namespace {own} because it is being terminated",
                kind=resource.plural,
                name=name,
                causes=[
                    {
                        "reason": "NamespaceTerminating",
                        "message": f"namespace {own} is being terminated",
                        "field": "metadata.namespace",
                    }
                ],
            )
        meta["namespace"] = own

    def _name(self, resource: Resource, meta: dict[str, Any]) -> None:
        namespace, prefix = meta.get("namespace", ""), meta.get("generateName")
        if not meta.get("name"):
            if not prefix:
                raise Invalid(
                    f'{resource.kind} "" is invalid: metadata.name: '
                    "Required value: name or generateName is required",
                    kind=resource.kind,
                )
            meta["name"] = self._naming.name(prefix)
            while self._store.get(resource, (namespace, meta["name"])) is not None:
                meta["name"] = self._naming.name(prefix)
        elif self._store.get(resource, (namespace, meta["name"])) is not None:
            raise AlreadyExists(
                f'{resource.qualified} "{meta["name"]}" already exists',
                kind=resource.plural,
                name=meta["name"],
            )


def freeze_object(obj: Mapping[str, Any]) -> Object:
    """Return a frozen copy of an object."""
    frozen: Object = freeze(obj)
    return frozen


def _metadata(old: Object, given: Mapping[str, Any]) -> dict[str, Any]:
    current: dict[str, Any] = old["metadata"]
    if given is current:
        return current
    meta = {name: one for name, one in given.items() if name not in _KEPT_METADATA}
    meta |= {name: current[name] for name in _KEPT_METADATA if name in current}
    # Writers do not keep ownership themselves; see track_update.
    meta.pop("managedFields", None)
    if "managedFields" in current:
        meta["managedFields"] = current["managedFields"]
    _drop_empty(meta)
    return meta


def _drop_empty(obj: dict[str, Any], names: Sequence[str] = _EMPTY_IS_ABSENT) -> None:
    for name in names:
        if name in obj and not obj[name]:
            del obj[name]


def _content(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name not in ("metadata", "status")}


def _with_managed_fields(obj: Object, entries: list[dict[str, Any]]) -> Object:
    meta = {**obj["metadata"], "managedFields": entries}
    return freeze_object({**obj, "metadata": meta})
