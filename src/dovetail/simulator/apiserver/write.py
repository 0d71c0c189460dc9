"""Creates and updates: defaulting, admission, validation and storage of objects.

The writer also keeps the metadata that belongs to the server: uid, timestamps,
generation, resourceVersion and managedFields.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from zlib import crc32

from dovetail.ports.api_resources import NAMESPACES, PODS, Resource
from dovetail.ports.kube_errors import AlreadyExists, BadRequest, Forbidden, Invalid, NotFound
from dovetail.simulator.apiserver.admission.defaults import (
    apply_defaults,
    complete_status,
    initial_pod_status,
    prepare_for_create,
)
from dovetail.simulator.apiserver.admission.identity import (
    check_deletion_fields,
    check_identity,
    resolve_type_meta,
)
from dovetail.simulator.apiserver.admission.plugins import PriorityAdmission
from dovetail.simulator.apiserver.admission.pod_resources import PodResourceAdmission
from dovetail.simulator.apiserver.admission.resource_quota import QuotaAdmission
from dovetail.simulator.apiserver.admission.validation import Validator, check_structure
from dovetail.simulator.apiserver.custom_kinds import CustomKinds
from dovetail.simulator.apiserver.delete import Deleter
from dovetail.simulator.apiserver.options import DEFAULT_WRITE_OPTIONS, WriteOptions
from dovetail.simulator.apiserver.patch.server_side_apply import FieldManager, update_managed_fields
from dovetail.simulator.apiserver.storage.frozen_object import FrozenObject, Object, freeze
from dovetail.simulator.apiserver.storage.store import Store
from dovetail.simulator.apiserver.timestamps import format_timestamp

_SERVER_METADATA: Final = tuple(
    "name generateName namespace uid resourceVersion creationTimestamp deletionTimestamp"
    " deletionGracePeriodSeconds generation".split()
)
"""Metadata fields that an update cannot change."""

_DROPPED_ON_CREATE: Final = ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds")
_OMIT_EMPTY_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")
_OMIT_EMPTY_DATA: Final = ("data", "binaryData")
"""Of ConfigMaps and Secrets."""

_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_SUFFIXES: Final = len(_SUFFIX_ALPHABET) ** _SUFFIX_LENGTH
# Coprime to the number of suffixes: counting up visits every suffix once.
_STRIDE: Final = 8_675_309
_MAX_PREFIX: Final = 253 - _SUFFIX_LENGTH
_GENERATED_UID: Final = re.compile("([0-9a-f]{8})-0000-4000-8000-[0-9a-f]{12}")


class NameGenerator:
    """Generates unique names and uids that are the same in every run.

    Names count per prefix: a name does not depend on other objects' creation.
    """

    def __init__(self) -> None:
        self._uids = 0
        self._counts: dict[str, int] = {}

    def generate_uid(self) -> str:
        self._uids += 1
        return f"{self._uids:08x}-0000-4000-8000-{self._uids:012x}"

    def reserve_uid(self, uid: str) -> None:
        """Never generate this uid, nor one before it."""
        match = _GENERATED_UID.match(uid)
        if match is not None:
            self._uids = max(self._uids, int(match[1], 16))

    def generate_name(self, prefix: str) -> str:
        """Return ``prefix`` (a generateName) with a suffix of five characters."""
        count = self._counts.get(prefix, 0)
        self._counts[prefix] = count + 1
        number = (crc32(prefix.encode()) + count * _STRIDE) % _SUFFIXES
        suffix = ""
        for _ in range(_SUFFIX_LENGTH):
            number, letter = divmod(number, len(_SUFFIX_ALPHABET))
            suffix += _SUFFIX_ALPHABET[letter]
        return prefix[:_MAX_PREFIX] + suffix


class Writer:
    """Defaults, admits, validates and stores objects."""

    def __init__(
        self, store: Store, deleter: Deleter, custom_kinds: CustomKinds, *, now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._custom_kinds = custom_kinds
        self._deleter = deleter
        self._names = NameGenerator()
        self._validator = Validator()
        self._priority_admission = PriorityAdmission(store)
        self._resource_admission = PodResourceAdmission(store)
        self._quota_admission = QuotaAdmission(store)
        self._now = now

    def reserve_uid(self, uid: str) -> None:
        """Never give this uid to another object."""
        self._names.reserve_uid(uid)

    def timestamp(self) -> str:
        return format_timestamp(self._now())

    def create(
        self, resource: Resource, obj: Mapping[str, Any], *, namespace: str, options: WriteOptions
    ) -> Object:
        """Store a new object."""
        check_structure(obj)
        new: dict[str, Any] = {**obj, **resolve_type_meta(resource, obj)}
        meta = new["metadata"] = dict(obj.get("metadata") or {})
        if meta.get("resourceVersion"):
            raise BadRequest("resourceVersion should not be set on objects to be created")
        self._set_namespace(resource, meta, namespace)
        self._set_name(resource, meta)
        for field in _DROPPED_ON_CREATE:
            meta.pop(field, None)
        _drop_empty(meta)
        if not resource.is_custom:
            _drop_empty(new, _OMIT_EMPTY_DATA)
        meta["uid"] = self._names.generate_uid()
        meta["creationTimestamp"] = self.timestamp()
        if resource.has_generation:
            meta["generation"] = 1
        prepare_for_create(resource, new)
        if resource.is_custom:
            self._custom_kinds.apply_defaults(resource, new)
        if resource is PODS:
            self._priority_admission.admit(new)
            self._resource_admission.admit(new)
            new["status"] = initial_pod_status(new)
        self._validator.validate_create(resource, new)
        if resource.is_custom:
            self._custom_kinds.validate(resource, new)
        self._quota_admission.admit(resource, new, charge=not options.dry_run)
        if options.field_manager and "managedFields" not in meta:
            manager = FieldManager(options.field_manager, "Update")
            meta["managedFields"] = update_managed_fields(resource, None, new, manager, now=self.timestamp())
        if options.dry_run:
            return freeze_object(new)
        return self._deleter.collect_garbage(resource, self._store.put(resource, new, old=None))

    def update(
        self,
        resource: Resource,
        old: Object,
        obj: Mapping[str, Any],
        *,
        subresource: str = "",
        manager_subresource: str = "",
        options: WriteOptions,
    ) -> Object:
        """Store a changed object; Conflict if its resourceVersion is not the newest.

        ``obj`` has passed ``check_structure``. An update without a change writes nothing.
        ``manager_subresource`` is the subresource in managedFields, for one that shows the
        object as another kind (scale).
        """
        new = self._updated(resource, old, obj, subresource)
        if new == old:
            return old
        self._validate_update(resource, old, new)
        # A status is never applied: what simulated components write there needs no owner.
        is_tracked = bool(old["metadata"].get("managedFields")) and subresource != "status"
        if options.field_manager or is_tracked:
            manager = FieldManager(
                options.field_manager or "unknown", "Update", subresource or manager_subresource
            )
            managed = update_managed_fields(resource, old, new, manager, now=self.timestamp())
            new = _with_managed_fields(new, managed)
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
        """Store the result of a server-side apply, which has its own managedFields."""
        check_structure(applied)
        new = self._updated(resource, old, applied, subresource)
        new = _with_managed_fields(new, applied["metadata"]["managedFields"])
        if new == old:
            return old
        self._validate_update(resource, old, new)
        return self.save(resource, old, new, options)

    def save(
        self,
        resource: Resource,
        old: Object,
        new: Mapping[str, Any],
        options: WriteOptions = DEFAULT_WRITE_OPTIONS,
    ) -> Object:
        """Store an object without validation, then complete deletions it was blocking."""
        frozen = freeze_object(new)
        if options.dry_run:
            return frozen
        saved = self._store.put(resource, frozen, old=old)
        self._deleter.unblock_owners(old, saved)
        return self._deleter.collect_garbage(resource, saved)

    def _validate_update(self, resource: Resource, old: Object, new: Object) -> None:
        self._validator.validate_update(resource, old, new)
        if resource.is_custom:
            self._custom_kinds.validate(resource, new)

    def _updated(self, resource: Resource, old: Object, obj: Mapping[str, Any], subresource: str) -> Object:
        """Return the object as an update would store it.

        An update of the status changes nothing else; any other update keeps the status.
        """
        check_identity(resource, old, obj)
        if subresource == "status":
            status = obj.get("status")
            if not resource.is_custom:
                return FrozenObject(old, status=freeze(complete_status(status or {})))
            new = {name: value for name, value in old.items() if name != "status"}
            if status is not None:
                new["status"] = status
            apply_defaults(resource, new)
            return freeze_object(new)
        check_deletion_fields(resource, old, obj["metadata"])
        new = {**obj, **resolve_type_meta(resource, obj), "metadata": _updated_metadata(old, obj["metadata"])}
        if resource.has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        if not resource.is_custom:
            _drop_empty(new, _OMIT_EMPTY_DATA)
        apply_defaults(resource, new)
        if resource.is_custom:
            self._custom_kinds.apply_defaults(resource, new)
        frozen = freeze_object(new)
        if resource.has_generation and _content(frozen) != _content(old):
            meta = {**frozen["metadata"], "generation": old["metadata"]["generation"] + 1}
            return freeze_object({**frozen, "metadata": meta})
        return frozen

    def _set_namespace(self, resource: Resource, meta: dict[str, Any], namespace: str) -> None:
        if not resource.namespaced:
            meta.pop("namespace", None)
            return
        name = meta.get("namespace") or namespace
        if not name:
            raise BadRequest("an empty namespace may not be set during creation")
        if namespace and name != namespace:
            raise BadRequest(
                f"the namespace of the provided object does not match the namespace sent "
                f"on the request: {name} is not {namespace}"
            )
        stored_namespace = self._store.get(NAMESPACES, ("", name))
        if stored_namespace is None:
            raise NotFound(f'namespaces "{name}" not found', kind="namespaces", name=name)
        if stored_namespace["metadata"].get("deletionTimestamp"):
            object_name = meta.get("name") or meta.get("generateName", "")
            raise Forbidden(
                f'{resource.qualified_name} "{object_name}" is forbidden: unable to create new '
                f"content in namespace {name} because it is being terminated",
                kind=resource.plural,
                name=object_name,
                causes=[
                    {
                        "reason": "NamespaceTerminating",
                        "message": f"namespace {name} is being terminated",
                        "field": "metadata.namespace",
                    }
                ],
            )
        meta["namespace"] = name

    def _set_name(self, resource: Resource, meta: dict[str, Any]) -> None:
        namespace, prefix = meta.get("namespace", ""), meta.get("generateName")
        if not meta.get("name"):
            if not prefix:
                raise Invalid(
                    f'{resource.kind} "" is invalid: metadata.name: '
                    "Required value: name or generateName is required",
                    kind=resource.kind,
                )
            meta["name"] = self._names.generate_name(prefix)
            while self._store.get(resource, (namespace, meta["name"])) is not None:
                meta["name"] = self._names.generate_name(prefix)
        elif self._store.get(resource, (namespace, meta["name"])) is not None:
            raise AlreadyExists(
                f'{resource.qualified_name} "{meta["name"]}" already exists',
                kind=resource.plural,
                name=meta["name"],
            )


def freeze_object(obj: Mapping[str, Any]) -> Object:
    """Return a frozen copy of an object."""
    frozen: Object = freeze(obj)
    return frozen


def _updated_metadata(old: Object, requested: Mapping[str, Any]) -> dict[str, Any]:
    current: dict[str, Any] = old["metadata"]
    if requested is current:
        return current
    meta = {name: value for name, value in requested.items() if name not in _SERVER_METADATA}
    meta |= {name: current[name] for name in _SERVER_METADATA if name in current}
    # Clients cannot write managedFields; update_managed_fields computes them.
    meta.pop("managedFields", None)
    if "managedFields" in current:
        meta["managedFields"] = current["managedFields"]
    _drop_empty(meta)
    return meta


def _drop_empty(obj: dict[str, Any], names: Sequence[str] = _OMIT_EMPTY_METADATA) -> None:
    for name in names:
        if name in obj and not obj[name]:
            del obj[name]


def _content(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name not in ("metadata", "status")}


def _with_managed_fields(obj: Object, entries: list[dict[str, Any]]) -> Object:
    meta = {**obj["metadata"], "managedFields": entries}
    return freeze_object({**obj, "metadata": meta})
