"""Deletion: grace periods, finalizers, propagation and garbage collection.

::

    delete -> deletionTimestamp set -> finalizers gone, grace period over -> removed
                                                                               |
              dependents collected, owners unblocked, namespace finalized  <---+

Garbage collection runs within the call that caused it, after the object itself
is removed. Kubernetes' garbage collector does the same in the same order, but
asynchronously, a moment later.
"""

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from dovetail.ports.api_resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, Resource
from dovetail.ports.kube_errors import Conflict, Forbidden
from dovetail.simulator.apiserver.options import DeleteOptions, PropagationPolicy
from dovetail.simulator.apiserver.storage.frozen_object import FrozenObject, Object, freeze, get_field
from dovetail.simulator.apiserver.storage.store import Store, object_key, owner_references_by_uid
from dovetail.simulator.apiserver.timestamps import format_timestamp

_FOREGROUND_FINALIZER: Final = "foregroundDeletion"
_PROTECTED_NAMESPACES: Final = frozenset({"default", "kube-system", "kube-public"})
_DEFAULT_GRACE_PERIOD: Final = 30
"""Seconds, for a pod without terminationGracePeriodSeconds."""
_DEFAULT_OPTIONS: Final = DeleteOptions()


class Deleter:
    """Deletes objects and garbage-collects their dependents."""

    def __init__(self, store: Store, *, now: Callable[[], datetime]) -> None:
        self._store = store
        self._now = now
        self._removed: deque[tuple[Resource, Object]] = deque()
        self._is_collecting = False

    def delete(self, resource: Resource, obj: Object, options: DeleteOptions = _DEFAULT_OPTIONS) -> Object:
        """Start deletion and return the object's last or its terminating state."""
        check_preconditions(resource, obj, options)
        if resource is NAMESPACES and obj["metadata"]["name"] in _PROTECTED_NAMESPACES:
            name = obj["metadata"]["name"]
            raise Forbidden(
                f'namespaces "{name}" is forbidden: this namespace may not be deleted',
                kind="namespaces",
                name=name,
            )
        if options.dry_run:
            return obj
        if options.propagation_policy == PropagationPolicy.ORPHAN:
            self._orphan_dependents(obj)
            # An earlier foreground deletion may have waited for these dependents.
            self._unblock_owner(obj["metadata"]["uid"])
            current = self._find_current(resource, obj)
            if current is None:
                return obj
            obj = current
        return self._begin_deletion(resource, obj, options)

    def collect_garbage(self, resource: Resource, obj: Object) -> Object:
        """Complete the deletion of a written object, or delete it if its owners are gone."""
        meta = obj["metadata"]
        if meta.get("deletionTimestamp"):
            if self._is_deletion_complete(resource, obj):
                return self._remove(resource, obj)
        elif meta.get("ownerReferences") and not self._has_solid_owner(obj):
            return self.delete(resource, obj)
        return obj

    def unblock_owners(self, before: Object, after: Object) -> None:
        """Complete the deletion of owners that waited for an object that no longer names them."""
        if before["metadata"].get("ownerReferences") != after["metadata"].get("ownerReferences"):
            self._unblock_owners(before)

    def _begin_deletion(self, resource: Resource, obj: Object, options: DeleteOptions) -> Object:
        meta = dict(obj["metadata"])
        dependents = self._store.dependents(meta["uid"])
        is_foreground = options.propagation_policy == PropagationPolicy.FOREGROUND and bool(dependents)
        finalizers = list(meta.get("finalizers") or ())
        if is_foreground and _FOREGROUND_FINALIZER not in finalizers:
            meta["finalizers"] = [*finalizers, _FOREGROUND_FINALIZER]
        self._set_deletion_timestamp(resource, obj, meta, options.grace_period_seconds)
        if self._is_removed_immediately(resource, meta):
            return self._remove(resource, obj)
        if meta != obj["metadata"]:
            new: dict[str, Any] = {**obj, "metadata": meta}
            if resource is NAMESPACES:
                new["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
            obj = self._store.put(resource, freeze(new), old=obj)
        if is_foreground:
            self._delete_objects(dependents)
            self._unblock_owner(meta["uid"])
        if resource is NAMESPACES:
            self._delete_objects(list(self._store.iter_namespace(meta["name"])))
            self._finalize_namespace(meta["name"])
        elif resource is CUSTOM_RESOURCE_DEFINITIONS:
            self._delete_objects(self._custom_objects(meta["name"]))
            self._finalize_definition(meta["name"])
        # The deletion of dependents may have removed the object itself.
        return self._store.get(resource, object_key(obj)) or obj

    def _set_deletion_timestamp(
        self, resource: Resource, obj: Object, meta: dict[str, Any], requested: int | None
    ) -> None:
        """Set deletionTimestamp and deletionGracePeriodSeconds in ``meta``.

        ``requested`` is the grace period of the request, in seconds.
        """
        if not meta.get("deletionTimestamp"):
            grace_period = _grace_period(obj, requested) if resource is PODS else 0
            meta["deletionTimestamp"] = format_timestamp(self._now() + timedelta(seconds=grace_period))
            meta["deletionGracePeriodSeconds"] = grace_period
            if "generation" in meta:
                meta["generation"] += 1
        elif resource is PODS and requested is not None:
            # A second deletion can only shorten the grace period.
            current = meta.get("deletionGracePeriodSeconds", 0)
            grace_period = _grace_period(obj, requested)
            if grace_period < current:
                deadline = datetime.fromisoformat(meta["deletionTimestamp"])
                deadline -= timedelta(seconds=current - grace_period)
                meta["deletionTimestamp"] = format_timestamp(deadline)
                meta["deletionGracePeriodSeconds"] = grace_period

    def _is_removed_immediately(self, resource: Resource, meta: dict[str, Any]) -> bool:
        is_pending = meta.get("finalizers") or meta.get("deletionGracePeriodSeconds")
        return not is_pending and resource not in (NAMESPACES, CUSTOM_RESOURCE_DEFINITIONS)

    def _is_deletion_complete(self, resource: Resource, obj: Object) -> bool:
        meta = obj["metadata"]
        if meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"):
            return False
        if resource is NAMESPACES:
            return next(self._store.iter_namespace(meta["name"]), None) is None
        if resource is CUSTOM_RESOURCE_DEFINITIONS:
            return not self._custom_objects(meta["name"])
        return True

    def _remove(self, resource: Resource, obj: Object) -> Object:
        last_state = self._store.remove(resource, obj)
        self._removed.append((resource, last_state))
        # Removals during garbage collection are queued: collection is not re-entrant.
        if not self._is_collecting:
            self._is_collecting = True
            try:
                while self._removed:
                    self._process_removal(*self._removed.popleft())
            finally:
                self._is_collecting = False
        return last_state

    def _process_removal(self, resource: Resource, removed: Object) -> None:
        meta = removed["metadata"]
        for dependent_resource, dependent in self._store.dependents(meta["uid"]):
            self._collect_dependent(dependent_resource, dependent)
        self._unblock_owners(removed)
        if resource.namespaced:
            self._finalize_namespace(meta["namespace"])
        if resource.is_custom:
            self._finalize_definition(resource.qualified_name)

    def _collect_dependent(self, resource: Resource, listed: Object) -> None:
        obj = self._find_current(resource, listed)
        if obj is None:
            return
        if not self._has_solid_owner(obj):
            if not obj["metadata"].get("deletionTimestamp"):
                self.delete(resource, obj)
            return
        existing = [
            reference for reference in obj["metadata"]["ownerReferences"] if self._owner_exists(reference)
        ]
        self._store.put(resource, _with_owner_references(obj, existing), old=obj)

    def _has_solid_owner(self, obj: Object) -> bool:
        """Return True if an owner exists that is not itself waiting for this object."""
        for reference in obj["metadata"].get("ownerReferences") or ():
            if self._owner_exists(reference) and not self._is_waiting_for_dependents(reference["uid"]):
                return True
        return False

    def _owner_exists(self, reference: Object) -> bool:
        if self._store.find_by_uid(reference["uid"]) is not None:
            return True
        # Owners of kinds that this server does not serve count as existing.
        return not self._store.has_kind(reference["apiVersion"], reference["kind"])

    def _is_waiting_for_dependents(self, uid: str) -> bool:
        owner = self._find_owner(uid)
        return owner is not None and _FOREGROUND_FINALIZER in (owner[1]["metadata"].get("finalizers") or ())

    def _find_owner(self, uid: str) -> tuple[Resource, Object] | None:
        reference = self._store.find_by_uid(uid)
        if reference is None:
            return None
        obj = self._store.get(reference.resource, reference.key)
        return None if obj is None else (reference.resource, obj)

    def _orphan_dependents(self, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        for resource, dependent in self._store.dependents(uid):
            remaining = [
                reference for reference in dependent["metadata"]["ownerReferences"] if reference["uid"] != uid
            ]
            self._store.put(resource, _with_owner_references(dependent, remaining), old=dependent)

    def _delete_objects(self, objects: list[tuple[Resource, Object]]) -> None:
        for resource, listed in objects:
            obj = self._find_current(resource, listed)
            if obj is None or obj["metadata"].get("deletionTimestamp"):
                continue
            has_dependents = bool(self._store.dependents(obj["metadata"]["uid"]))
            policy = PropagationPolicy.FOREGROUND if has_dependents else PropagationPolicy.BACKGROUND
            self._begin_deletion(resource, obj, DeleteOptions(propagation_policy=policy))

    def _find_current(self, resource: Resource, listed: Object) -> Object | None:
        """Return the stored state of a listed object.

        None if it is gone: it may have been removed along with an earlier one.
        """
        obj = self._store.get(resource, object_key(listed))
        is_same = obj is not None and obj["metadata"]["uid"] == listed["metadata"]["uid"]
        return obj if is_same else None

    def _unblock_owners(self, dependent: Object) -> None:
        for uid in owner_references_by_uid(dependent):
            self._unblock_owner(uid)

    def _unblock_owner(self, uid: str) -> None:
        """Remove the foreground finalizer of an owner without blocking dependents."""
        owner = self._find_owner(uid)
        if owner is None or not self._is_waiting_for_dependents(uid):
            return
        resource, obj = owner
        ancestors = self._ancestor_uids(obj)
        for _, dependent in self._store.dependents(uid):
            # Two objects that own each other would wait for each other forever.
            is_cycle = dependent["metadata"]["uid"] in ancestors
            reference = owner_references_by_uid(dependent)[uid]
            if reference.get("blockOwnerDeletion") and not is_cycle:
                return
        meta = dict(obj["metadata"])
        meta["finalizers"] = [
            finalizer for finalizer in meta["finalizers"] if finalizer != _FOREGROUND_FINALIZER
        ]
        if not meta["finalizers"]:
            del meta["finalizers"]
        updated = self._store.put(resource, freeze({**obj, "metadata": meta}), old=obj)
        self.collect_garbage(resource, updated)

    def _ancestor_uids(self, obj: Object) -> set[str]:
        """Return the uids of all direct and indirect owners."""
        ancestors: set[str] = set()
        pending = list(owner_references_by_uid(obj))
        while pending:
            uid = pending.pop()
            if uid not in ancestors:
                ancestors.add(uid)
                owner = self._find_owner(uid)
                pending += owner_references_by_uid(owner[1]) if owner is not None else ()
        return ancestors

    def _finalize_namespace(self, name: str) -> None:
        namespace = self._store.get(NAMESPACES, ("", name))
        if namespace is not None and namespace["metadata"].get("deletionTimestamp"):
            self.collect_garbage(NAMESPACES, namespace)

    def _custom_objects(self, definition: str) -> list[tuple[Resource, Object]]:
        """Return the objects of a CustomResourceDefinition, by its name."""
        return [
            (resource, obj)
            for resource, collection in self._store.collections.items()
            if resource.is_custom and resource.qualified_name == definition
            for obj in collection.objects.values()
        ]

    def _finalize_definition(self, name: str) -> None:
        definition = self._store.get(CUSTOM_RESOURCE_DEFINITIONS, ("", name))
        if definition is not None and definition["metadata"].get("deletionTimestamp"):
            self.collect_garbage(CUSTOM_RESOURCE_DEFINITIONS, definition)


def _grace_period(pod: Object, requested: int | None) -> int:
    """Return the grace period of a pod in seconds; 0 if no kubelet has to stop it."""
    is_finished = get_field(pod, "status", "phase") in ("Succeeded", "Failed")
    if not get_field(pod, "spec", "nodeName") or is_finished:
        return 0
    if requested is not None:
        return max(requested, 0)
    seconds = get_field(pod, "spec", "terminationGracePeriodSeconds")
    return _DEFAULT_GRACE_PERIOD if seconds is None else int(seconds)


def _with_owner_references(obj: Object, references: list[Object]) -> Object:
    meta = dict(obj["metadata"])
    meta["ownerReferences"] = references
    if not references:
        del meta["ownerReferences"]
    return FrozenObject({**obj, "metadata": freeze(meta)})


def check_preconditions(resource: Resource, obj: Object, options: DeleteOptions) -> None:
    """Raise Conflict if the object has another uid or resourceVersion than requested."""
    meta = obj["metadata"]
    for field, expected, actual in (
        ("UID", options.uid, meta["uid"]),
        ("ResourceVersion", options.resource_version, meta["resourceVersion"]),
    ):
        if expected and expected != actual:
            raise Conflict(
                f'Operation cannot be fulfilled on {resource.qualified_name} "{meta["name"]}": '
                f"the {field} in the precondition ({expected}) does not match the {field} "
                f"in record ({actual})",
                kind=resource.plural,
                name=meta["name"],
            )
