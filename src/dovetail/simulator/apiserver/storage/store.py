"""Storage: objects of all kinds under one revision counter, as in etcd.

Each kind has indexes for lists, and a bounded history of changes (Kubernetes' watch
cache) from which watches resume and older resourceVersions are listed.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple

from dovetail.ports.api_resources import RESOURCES, Resource
from dovetail.ports.kube_errors import Gone, Timeout
from dovetail.simulator.apiserver.storage.frozen_object import FrozenObject, Object, freeze
from dovetail.simulator.apiserver.storage.selectors import Operator, SelectionPredicate, field_value

_COMPACTION_INTERVAL: Final = timedelta(minutes=5)
"""Interval at which older changes are dropped; the default of kube-apiserver."""

ObjectKey = tuple[str, str]
"""Namespace and name; the namespace of a cluster-scoped object is empty."""


class Index:
    """Keys of objects by the value of ``index_func``; None is not indexed."""

    def __init__(self, index_func: Callable[[Object], str | None]) -> None:
        self._index_func = index_func
        # Dictionaries as ordered sets: iteration must not depend on hashes.
        self._keys: dict[str, dict[ObjectKey, None]] = {}

    def record(self, key: ObjectKey, old: Object | None, new: Object | None) -> None:
        """Update the index for a change of an object."""
        before = None if old is None else self._index_func(old)
        after = None if new is None else self._index_func(new)
        if before == after:
            return
        if before is not None:
            keys = self._keys[before]
            del keys[key]
            if not keys:
                del self._keys[before]
        if after is not None:
            self._keys.setdefault(after, {})[key] = None

    def count(self, values: Iterable[str]) -> int:
        """Return the number of objects with one of the values."""
        return sum(len(self._keys.get(value, ())) for value in values)

    def find(self, values: Iterable[str]) -> list[ObjectKey]:
        """Return the sorted keys of the objects with one of the values."""
        return sorted(key for value in values for key in self._keys.get(value, ()))


class Change(NamedTuple):
    """A write: ``old`` is None for a creation, ``new`` for a removal."""

    revision: int
    key: ObjectKey
    old: Object | None
    new: Object | None


class ObjectReference(NamedTuple):
    """Resource and key of a stored object."""

    resource: Resource
    key: ObjectKey


def object_key(obj: Object) -> ObjectKey:
    """Return the namespace and name of an object."""
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


def with_resource_version(obj: Object, revision: int) -> Object:
    """Return the object with another resourceVersion; its other parts are shared."""
    meta = FrozenObject(obj["metadata"], resourceVersion=str(revision))
    return FrozenObject(obj, metadata=meta)


class Collection:
    """All objects of one kind, with indexes and history."""

    def __init__(self, resource: Resource, *, watch_cache_size: int) -> None:
        self.resource = resource
        self.objects: dict[ObjectKey, Object] = {}
        self.by_namespace: dict[str, dict[ObjectKey, None]] = {}
        self._by_field = {
            field: Index(partial(field_value, field=field)) for field in resource.indexed_fields
        }
        self._by_label: dict[str, Index] = {}
        self._watch_cache_size = watch_cache_size
        # Bounded: a full deque frees one change for each new one, so that the number of
        # allocations does not grow and Python's garbage collector does not run.
        self._history: deque[Change] = deque(maxlen=watch_cache_size)
        self._compacted_revision = 0
        self._keys: list[ObjectKey] | None = []
        """All keys, possibly unsorted; None after a removal, rebuilt on demand."""
        self._keys_are_sorted = True

    def record(self, change: Change) -> None:
        """Apply a change to the objects, the indexes and the history."""
        key, old, new = change.key, change.old, change.new
        if new is None:
            del self.objects[key]
            self._keys = None
            namespace_keys = self.by_namespace[key[0]]
            del namespace_keys[key]
            if not namespace_keys:
                del self.by_namespace[key[0]]
        else:
            self.objects[key] = new
            if old is None:
                self._add_key(key)
        for index in self._by_field.values():
            index.record(key, old, new)
        for index in self._by_label.values():
            index.record(key, old, new)
        if len(self._history) == self._watch_cache_size:
            self._compacted_revision = self._history[0].revision
        self._history.append(change)

    def _add_key(self, key: ObjectKey) -> None:
        self.by_namespace.setdefault(key[0], {})[key] = None
        if self._keys is not None:
            self._keys.append(key)
            self._keys_are_sorted = False

    def compact(self, revision: int) -> None:
        """Drop the history up to a revision, as etcd's compaction does."""
        while self._history and self._history[0].revision <= revision:
            self._history.popleft()
        self._compacted_revision = max(self._compacted_revision, revision)

    def changes_since(self, revision: int) -> Iterable[Change]:
        """Return the changes after a revision, oldest first; Gone if compacted."""
        if revision < self._compacted_revision:
            raise Gone(f"too old resource version: {revision} ({self._compacted_revision})")
        history = list(self._history)
        return history[bisect_right(history, revision, key=attrgetter("revision")) :]

    def select(self, predicate: SelectionPredicate) -> list[Object]:
        """Return the matching objects, ordered by namespace and name."""
        objects, matches = self.objects, predicate.matches
        keys = self._candidate_keys(predicate)
        if not predicate.labels and not predicate.fields:
            return [objects[key] for key in keys]
        return [obj for key in keys if matches(obj := objects[key])]

    def select_at(self, predicate: SelectionPredicate, revision: int) -> list[Object]:
        """Return the objects that matched at an earlier revision."""
        earlier: dict[ObjectKey, Object | None] = {}
        for change in reversed(list(self.changes_since(revision))):
            earlier[change.key] = change.old
        if not earlier:
            return self.select(predicate)
        objects = {**self.objects, **earlier}
        matching = [obj for obj in objects.values() if obj is not None and predicate.matches(obj)]
        return sorted(matching, key=object_key)

    def _candidate_keys(self, predicate: SelectionPredicate) -> Iterable[ObjectKey]:
        """Return a sorted superset of the matching keys, by the most selective index."""
        name = predicate.exact_match("metadata.name")
        if name is not None and (predicate.namespace or not self.resource.namespaced):
            key = (predicate.namespace, name)
            return (key,) if key in self.objects else ()
        lookups = [
            (index, frozenset({value}))
            for field, index in self._by_field.items()
            if (value := predicate.exact_match(field)) is not None
        ]
        lookups += [
            (self._label_index(requirement.key), requirement.values)
            for requirement in predicate.labels
            if requirement.operator is Operator.IN
        ]
        namespace_keys = self.by_namespace.get(predicate.namespace, {}) if predicate.namespace else None
        if lookups:
            index, values = min(lookups, key=lambda lookup: lookup[0].count(lookup[1]))
            if namespace_keys is None or index.count(values) < len(namespace_keys):
                return index.find(values)
        return self._sorted_keys() if namespace_keys is None else sorted(namespace_keys)

    def _label_index(self, label: str) -> Index:
        """Return the index of a label, built on its first use."""
        index = self._by_label.get(label)
        if index is None:
            index = self._by_label[label] = Index(partial(_label_value, label=label))
            for key, obj in self.objects.items():
                index.record(key, None, obj)
        return index

    def _sorted_keys(self) -> list[ObjectKey]:
        if self._keys is None:
            self._keys, self._keys_are_sorted = list(self.objects), False
        if not self._keys_are_sorted:
            self._keys.sort()
            self._keys_are_sorted = True
        return self._keys


def _label_value(obj: Object, *, label: str) -> str | None:
    labels = obj["metadata"].get("labels")
    value: str | None = labels.get(label) if labels else None
    return value


class Store:
    """All collections under one revision counter; calls ``on_change`` for each write."""

    def __init__(
        self,
        *,
        on_change: Callable[[Resource, Change], None],
        now: Callable[[], datetime],
        watch_cache_size: int,
    ) -> None:
        self.revision = 0
        self._watch_cache_size = watch_cache_size
        self.collections: dict[Resource, Collection] = {}
        self._kinds: set[tuple[str, str]] = set()
        for resource in RESOURCES:
            self.add_collection(resource)
        self._on_change = on_change
        self._now = now
        self._next_compaction = now() + _COMPACTION_INTERVAL
        self._old_revision = 0
        """Newest revision at the last compaction: older than the interval at the next one."""
        self._by_uid: dict[str, ObjectReference] = {}
        self._dependents: dict[str, dict[ObjectReference, None]] = {}

    def add_collection(self, resource: Resource) -> None:
        """Store objects of a kind from now on."""
        self.collections[resource] = Collection(resource, watch_cache_size=self._watch_cache_size)
        self._kinds.add((resource.api_version, resource.kind))

    def remove_collection(self, resource: Resource) -> None:
        """Drop a kind that has no objects left."""
        del self.collections[resource]
        self._kinds.discard((resource.api_version, resource.kind))

    def has_kind(self, api_version: str, kind: str) -> bool:
        """Return True if objects of a kind can be stored."""
        return (api_version, kind) in self._kinds

    def get(self, resource: Resource, key: ObjectKey) -> Object | None:
        return self.collections[resource].objects.get(key)

    def put(self, resource: Resource, obj: Object, *, old: Object | None) -> Object:
        """Store an object in place of ``old`` and return it with its new resourceVersion."""
        self.revision += 1
        new = with_resource_version(freeze(obj), self.revision)
        self._commit(resource, Change(self.revision, object_key(new), old, new))
        return new

    def remove(self, resource: Resource, old: Object) -> Object:
        """Remove an object and return its last state."""
        self.revision += 1
        self._commit(resource, Change(self.revision, object_key(old), old, None))
        return with_resource_version(old, self.revision)

    def check_resource_version(self, revision: int) -> None:
        """Raise Timeout if a revision is newer than the store, as Kubernetes does."""
        if revision > self.revision:
            raise Timeout(
                f"Too large resource version: {revision}, current: {self.revision}",
                retry_after=1,
                causes=[{"reason": "ResourceVersionTooLarge"}],
            )

    def find_by_uid(self, uid: str) -> ObjectReference | None:
        """Return the reference of the object with a uid; None if it is gone."""
        return self._by_uid.get(uid)

    def dependents(self, uid: str) -> list[tuple[Resource, Object]]:
        """Return the objects with an owner reference to a uid, oldest reference first."""
        references = self._dependents.get(uid, ())
        return [
            (reference.resource, self.collections[reference.resource].objects[reference.key])
            for reference in references
        ]

    def iter_namespace(self, namespace: str) -> Iterator[tuple[Resource, Object]]:
        """Yield all objects in a namespace, kind by kind."""
        for resource, collection in self.collections.items():
            for key in sorted(collection.by_namespace.get(namespace, ())):
                if resource.namespaced:
                    yield resource, collection.objects[key]

    def compact(self, revision: int) -> None:
        """Drop the history of all collections up to a revision."""
        for collection in self.collections.values():
            collection.compact(revision)

    def _commit(self, resource: Resource, change: Change) -> None:
        if (now := self._now()) >= self._next_compaction:
            self.compact(self._old_revision)
            self._old_revision, self._next_compaction = change.revision - 1, now + _COMPACTION_INTERVAL
        self.collections[resource].record(change)
        self._index_owners(resource, change)
        self._on_change(resource, change)

    def _index_owners(self, resource: Resource, change: Change) -> None:
        key, old, new = change.key, change.old, change.new
        if old is not None and new is not None and _same_owners(old, new):
            return  # Fast path of nearly every write.
        if old is None and new is not None:
            self._by_uid[new["metadata"]["uid"]] = ObjectReference(resource, key)
        elif new is None and old is not None:
            del self._by_uid[old["metadata"]["uid"]]
        before, after = owner_references_by_uid(old), owner_references_by_uid(new)
        if before == after:
            return
        reference = ObjectReference(resource, key)
        for uid in before:
            if uid not in after:
                dependents = self._dependents[uid]
                del dependents[reference]
                if not dependents:
                    del self._dependents[uid]
        for uid in after:
            self._dependents.setdefault(uid, {})[reference] = None


def _same_owners(old: Object, new: Object) -> bool:
    before, after = old["metadata"], new["metadata"]
    return before.get("ownerReferences") is after.get("ownerReferences")


def owner_references_by_uid(obj: Object | None) -> dict[str, Any]:
    """Return the owner references of an object, by uid of the owner."""
    references = obj["metadata"].get("ownerReferences") if obj is not None else None
    return {reference["uid"]: reference for reference in references} if references else {}
