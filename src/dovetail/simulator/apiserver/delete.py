"""Deletion: grace, finalizers, and what goes along with an object.

Garbage collection happens within the call that caused it, after the object
itself is gone; Kubernetes does it a moment later, in the same order.
"""

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import msgspec

from dovetail.ports.api_resources import NAMESPACES, PODS, Resource, resource_of_kind
from dovetail.ports.kube_errors import Conflict, Forbidden
from dovetail.simulator.apiserver.storage.frozen_object import FrozenObject, Object, freeze, look
from dovetail.simulator.apiserver.storage.store import Store, key_of, owners_of
from dovetail.simulator.apiserver.timestamps import timestamp

_FOREGROUND: Final = "foregroundDeletion"
_KEPT_NAMESPACES: Final = frozenset({"default", "kube-system", "kube-public"})


class Propagation(StrEnum):
    """What becomes of the objects that the deleted one owns."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class DeleteOptions(msgspec.Struct, frozen=True):
    """How to delete; ``uid`` and ``resource_version`` are preconditions."""

    grace_seconds: int | None = None
    propagation: Propagation = Propagation.BACKGROUND
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False


_PLAIN: Final = DeleteOptions()


class Deleter:
    """Takes objects away when nothing holds them any longer."""

    def __init__(self, store: Store, *, now: Callable[[], datetime]) -> None:
        self._store = store
        self._now = now
        self._aftermath: deque[tuple[Resource, Object]] = deque()
        self._clearing_up = False

    def delete(self, resource: Resource, obj: Object, options: DeleteOptions = _PLAIN) -> Object:
        """Delete as far as possible now; returns the last state, or the one that waits."""
        check_preconditions(resource, obj, options)
        if resource is NAMESPACES and obj["metadata"]["name"] in _KEPT_NAMESPACES:
            name = obj["metadata"]["name"]
            raise Forbidden(
                f'namespaces "{name}" is forbidden: this namespace may not be deleted',
                kind="namespaces",
                name=name,
            )
        if options.dry_run:
            return obj
        if options.propagation == Propagation.ORPHAN:
            self._let_go(obj)
            # It may have waited in the foreground for those it now lets go.
            self._unblock_owner(obj["metadata"]["uid"])
            current = self._still_there(resource, obj)
            if current is None:
                return obj
            obj = current
        return self._begin(resource, obj, options)

    def settle(self, resource: Resource, obj: Object) -> Object:
        """After a write: remove what only waited for this, collect what nobody owns any more."""
        meta = obj["metadata"]
        if meta.get("deletionTimestamp"):
            if self._may_go(resource, obj):
                return self._remove(resource, obj)
        elif meta.get("ownerReferences") and not self._is_wanted(obj):
            return self.delete(resource, obj)
        return obj

    def release_owners(self, before: Object, after: Object) -> None:
        """After a change of owner references: let owners go that waited for this object."""
        if before["metadata"].get("ownerReferences") != after["metadata"].get("ownerReferences"):
            self._unblock(before)

    def _begin(self, resource: Resource, obj: Object, options: DeleteOptions) -> Object:
        meta = dict(obj["metadata"])
        dependents = self._store.dependents(meta["uid"])
        in_front = options.propagation == Propagation.FOREGROUND and bool(dependents)
        finalizers = list(meta.get("finalizers") or ())
        if in_front and _FOREGROUND not in finalizers:
            meta["finalizers"] = [*finalizers, _FOREGROUND]
        self._mark(resource, obj, meta, options.grace_seconds)
        if self._goes_at_once(resource, meta):
            return self._remove(resource, obj)
        if meta != obj["metadata"]:
            new: dict[str, Any] = {**obj, "metadata": meta}
            if resource is NAMESPACES:
                new["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
            obj = self._store.put(resource, freeze(new), old=obj)
        if in_front:
            self._delete_all(dependents)
            self._unblock_owner(meta["uid"])
        if resource is NAMESPACES:
            self._delete_all(list(self._store.content(meta["name"])))
            self._finish_namespace(meta["name"])
        # What was just done may have removed the object itself.
        return self._store.get(resource, key_of(obj)) or obj

    def _mark(
        self, resource: Resource, obj: Object, meta: dict[str, Any], asked: int | None
    ) -> None:
        """Write into ``meta`` when the object is to be gone."""
        if not meta.get("deletionTimestamp"):
            grace = _grace(obj, asked) if resource is PODS else 0
            meta["deletionTimestamp"] = timestamp(self._now() + timedelta(seconds=grace))
            meta["deletionGracePeriodSeconds"] = grace
            if "generation" in meta:
                meta["generation"] += 1
        elif resource is PODS and asked is not None:
            # A second deletion can only shorten the wait.
            left = meta.get("deletionGracePeriodSeconds", 0)
            if _grace(obj, asked) < left:
                sooner = timedelta(seconds=left - _grace(obj, asked))
                due = datetime.fromisoformat(meta["deletionTimestamp"]) - sooner
                meta["deletionTimestamp"] = timestamp(due)
                meta["deletionGracePeriodSeconds"] = _grace(obj, asked)

    def _goes_at_once(self, resource: Resource, meta: dict[str, Any]) -> bool:
        waits = meta.get("finalizers") or meta.get("deletionGracePeriodSeconds")
        return not waits and resource is not NAMESPACES

    def _may_go(self, resource: Resource, obj: Object) -> bool:
        meta = obj["metadata"]
        if meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"):
            return False
        if resource is NAMESPACES:
            return next(self._store.content(meta["name"]), None) is None
        return True

    def _remove(self, resource: Resource, obj: Object) -> Object:
        last = self._store.remove(resource, obj)
        self._aftermath.append((resource, last))
        if not self._clearing_up:
            self._clearing_up = True
            try:
                while self._aftermath:
                    self._clear_up(*self._aftermath.popleft())
            finally:
                self._clearing_up = False
        return last

    def _clear_up(self, resource: Resource, gone: Object) -> None:
        meta = gone["metadata"]
        for kind, dependent in self._store.dependents(meta["uid"]):
            self._collect(kind, dependent)
        self._unblock(gone)
        if resource.namespaced:
            self._finish_namespace(meta["namespace"])

    def _collect(self, resource: Resource, listed: Object) -> None:
        obj = self._still_there(resource, listed)
        if obj is None:
            return
        if not self._is_wanted(obj):
            if not obj["metadata"].get("deletionTimestamp"):
                self.delete(resource, obj)
            return
        living = [one for one in obj["metadata"]["ownerReferences"] if self._exists(one)]
        self._store.put(resource, _owned_by(obj, living), old=obj)

    def _is_wanted(self, obj: Object) -> bool:
        """Tell whether some owner lives that is not itself waiting for this object to go."""
        references = obj["metadata"].get("ownerReferences") or ()
        return any(self._exists(one) and not self._is_leaving(one["uid"]) for one in references)

    def _exists(self, reference: Object) -> bool:
        # Of kinds we do not serve nothing can be known, so nothing is collected.
        known = resource_of_kind(reference["apiVersion"], reference["kind"]) is not None
        return not known or self._store.find(reference["uid"]) is not None

    def _is_leaving(self, uid: str) -> bool:
        owner = self._owner(uid)
        return owner is not None and _FOREGROUND in (owner[1]["metadata"].get("finalizers") or ())

    def _owner(self, uid: str) -> tuple[Resource, Object] | None:
        address = self._store.find(uid)
        if address is None:
            return None
        obj = self._store.get(address.resource, address.key)
        return None if obj is None else (address.resource, obj)

    def _let_go(self, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        for resource, dependent in self._store.dependents(uid):
            others = [one for one in dependent["metadata"]["ownerReferences"] if one["uid"] != uid]
            self._store.put(resource, _owned_by(dependent, others), old=dependent)

    def _delete_all(self, objects: list[tuple[Resource, Object]]) -> None:
        for resource, listed in objects:
            obj = self._still_there(resource, listed)
            if obj is None or obj["metadata"].get("deletionTimestamp"):
                continue
            owns = bool(self._store.dependents(obj["metadata"]["uid"]))
            how = Propagation.FOREGROUND if owns else Propagation.BACKGROUND
            self._begin(resource, obj, DeleteOptions(propagation=how))

    def _still_there(self, resource: Resource, listed: Object) -> Object | None:
        """Return an object's present state; it may have gone along with one before it."""
        obj = self._store.get(resource, key_of(listed))
        same = obj is not None and obj["metadata"]["uid"] == listed["metadata"]["uid"]
        return obj if same else None

    def _unblock(self, dependent: Object) -> None:
        for uid in owners_of(dependent):
            self._unblock_owner(uid)

    def _unblock_owner(self, uid: str) -> None:
        owner = self._owner(uid)
        if owner is None or not self._is_leaving(uid):
            return
        resource, obj = owner
        above = self._ancestors(obj)
        for _, dependent in self._store.dependents(uid):
            # Two that own each other would wait for each other forever.
            in_circle = dependent["metadata"]["uid"] in above
            if owners_of(dependent)[uid].get("blockOwnerDeletion") and not in_circle:
                return
        meta = dict(obj["metadata"])
        meta["finalizers"] = [one for one in meta["finalizers"] if one != _FOREGROUND]
        if not meta["finalizers"]:
            del meta["finalizers"]
        self.settle(resource, self._store.put(resource, freeze({**obj, "metadata": meta}), old=obj))

    def _ancestors(self, obj: Object) -> set[str]:
        """Return the uids of all that own an object, directly or not."""
        found: set[str] = set()
        ahead = list(owners_of(obj))
        while ahead:
            uid = ahead.pop()
            if uid not in found:
                found.add(uid)
                owner = self._owner(uid)
                ahead += owners_of(owner[1]) if owner is not None else ()
        return found

    def _finish_namespace(self, name: str) -> None:
        namespace = self._store.get(NAMESPACES, ("", name))
        if namespace is not None and namespace["metadata"].get("deletionTimestamp"):
            self.settle(NAMESPACES, namespace)


def _grace(pod: Object, asked: int | None) -> int:
    """Return how long a pod may take; nobody has to stop one that does not run."""
    finished = look(pod, "status", "phase") in ("Succeeded", "Failed")
    if not look(pod, "spec", "nodeName") or finished:
        return 0
    if asked is not None:
        return max(asked, 0)
    default = look(pod, "spec", "terminationGracePeriodSeconds")
    return 30 if default is None else int(default)


def _owned_by(obj: Object, references: list[Object]) -> Object:
    meta = dict(obj["metadata"])
    meta["ownerReferences"] = references
    if not references:
        del meta["ownerReferences"]
    return FrozenObject({**obj, "metadata": freeze(meta)})


def check_preconditions(resource: Resource, obj: Object, options: DeleteOptions) -> None:
    """Refuse to delete another object, or another state of it, than the one that was meant."""
    meta = obj["metadata"]
    for field, asked, found in (
        ("UID", options.uid, meta["uid"]),
        ("ResourceVersion", options.resource_version, meta["resourceVersion"]),
    ):
        if asked and asked != found:
            raise Conflict(
                f'Operation cannot be fulfilled on {resource.qualified} "{meta["name"]}": '
                f"the {field} in the precondition ({asked}) does not match the {field} "
                f"in record ({found})",
                kind=resource.plural,
                name=meta["name"],
            )
