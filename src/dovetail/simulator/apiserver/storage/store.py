"""The objects themselves: one counter of revisions, indexes, and a bounded history."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from dovetail.ports.api_resources import RESOURCES, Resource
from dovetail.ports.kube_errors import Gone, Timeout
from dovetail.simulator.apiserver.storage.frozen_object import FrozenObject, Object, freeze
from dovetail.simulator.apiserver.storage.index import Index, Key
from dovetail.simulator.apiserver.storage.selectors import Ask, Selection, field_text


class Change(NamedTuple):
    """One write: ``old`` is None for a creation, ``new`` for a removal."""

    revision: int
    key: Key
    old: Object | None
    new: Object | None


class Address(NamedTuple):
    """Where an object is kept."""

    resource: Resource
    key: Key


def key_of(obj: Object) -> Key:
    """Return the namespace and name an object says it has."""
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


def with_revision(obj: Object, revision: int) -> Object:
    """Return the object as of a revision; its other parts are shared."""
    meta = FrozenObject({**obj["metadata"], "resourceVersion": str(revision)})
    return FrozenObject({**obj, "metadata": meta})


class Collection:
    """All objects of one kind, with the indexes lists and watches need."""

    def __init__(self, resource: Resource, *, remember: int) -> None:
        self.resource = resource
        self.objects: dict[Key, Object] = {}
        self.by_namespace: dict[str, dict[Key, None]] = {}
        self._by_field = {
            field: Index(partial(field_text, field=field)) for field in resource.indexed_fields
        }
        self._by_label: dict[str, Index] = {}
        self._remember = remember
        # Each change pushes out one: Python looks for garbage when more comes than goes.
        self._history: deque[Change] = deque(maxlen=remember)
        self._forgotten = 0
        self._order: list[Key] | None = []
        self._order_is_sorted = True

    def record(self, change: Change) -> None:
        """Take a change over into the objects, the indexes and the history."""
        key, old, new = change.key, change.old, change.new
        if new is None:
            del self.objects[key]
            self._order = None
            siblings = self.by_namespace[key[0]]
            del siblings[key]
            if not siblings:
                del self.by_namespace[key[0]]
        else:
            self.objects[key] = new
            if old is None:
                self._added(key)
        for index in self._by_field.values():
            index.record(key, old, new)
        for index in self._by_label.values():
            index.record(key, old, new)
        if len(self._history) == self._remember:
            self._forgotten = self._history[0].revision
        self._history.append(change)

    def _added(self, key: Key) -> None:
        self.by_namespace.setdefault(key[0], {})[key] = None
        if self._order is not None:
            self._order.append(key)
            self._order_is_sorted = False

    def compact(self, revision: int) -> None:
        """Forget how it came to a revision, as etcd's compaction does."""
        self._history.clear()
        self._forgotten = revision

    def since(self, revision: int) -> Iterable[Change]:
        """Return the changes after a revision, oldest first; Gone when forgotten."""
        if revision < self._forgotten:
            raise Gone(f"too old resource version: {revision} ({self._forgotten})")
        known = list(self._history)
        return known[bisect_right(known, revision, key=_revision_of) :]

    def select(self, selection: Selection) -> list[Object]:
        """Return what matches, ordered by namespace and name."""
        objects, matches = self.objects, selection.matches
        keys = self._candidates(selection)
        if not selection.labels and not selection.fields:
            return [objects[key] for key in keys]
        return [obj for key in keys if matches(obj := objects[key])]

    def select_at(self, selection: Selection, revision: int) -> list[Object]:
        """Return what matched at an earlier revision."""
        then: dict[Key, Object | None] = {}
        for change in reversed(list(self.since(revision))):
            then[change.key] = change.old
        if not then:
            return self.select(selection)
        earlier = {**self.objects, **then}
        found = [obj for obj in earlier.values() if obj is not None and selection.matches(obj)]
        return sorted(found, key=key_of)

    def _candidates(self, selection: Selection) -> Iterable[Key]:
        name = selection.value_of("metadata.name")
        if name is not None and (selection.namespace or not self.resource.namespaced):
            key = (selection.namespace, name)
            return (key,) if key in self.objects else ()
        ways = [
            (index, frozenset({value}))
            for field, index in self._by_field.items()
            if (value := selection.value_of(field)) is not None
        ]
        ways += [
            (self._label_index(term.key), term.values)
            for term in selection.labels
            if term.test is Ask.IN
        ]
        inside = self.by_namespace.get(selection.namespace, {}) if selection.namespace else None
        if ways:
            index, values = min(ways, key=lambda way: way[0].count(way[1]))
            if inside is None or index.count(values) < len(inside):
                return index.find(values)
        return self._sorted_keys() if inside is None else sorted(inside)

    def _label_index(self, label: str) -> Index:
        """Return the index of a label, made when somebody first selects by it."""
        index = self._by_label.get(label)
        if index is None:
            index = self._by_label[label] = Index(partial(_label_of, label=label))
            for key, obj in self.objects.items():
                index.record(key, None, obj)
        return index

    def _sorted_keys(self) -> list[Key]:
        if self._order is None:
            self._order, self._order_is_sorted = list(self.objects), False
        if not self._order_is_sorted:
            self._order.sort()
            self._order_is_sorted = True
        return self._order


def _revision_of(change: Change) -> int:
    return change.revision


def _label_of(obj: Object, *, label: str) -> str | None:
    labels = obj["metadata"].get("labels")
    value: str | None = labels.get(label) if labels else None
    return value


class Store:
    """Every collection under one counter; tells ``on_change`` of each write."""

    def __init__(
        self, *, on_change: Callable[[Resource, Change], None], remember: int = 10_000
    ) -> None:
        self.revision = 0
        self.collections = {one: Collection(one, remember=remember) for one in RESOURCES}
        self._on_change = on_change
        self._by_uid: dict[str, Address] = {}
        self._dependents: dict[str, dict[Address, None]] = {}

    def get(self, resource: Resource, key: Key) -> Object | None:
        return self.collections[resource].objects.get(key)

    def put(self, resource: Resource, obj: Object, *, old: Object | None) -> Object:
        """Keep a frozen object in place of ``old`` and return it with its new revision."""
        self.revision += 1
        new = with_revision(freeze(obj), self.revision)
        self._commit(resource, Change(self.revision, key_of(new), old, new))
        return new

    def remove(self, resource: Resource, old: Object) -> Object:
        """Forget an object and return its last state."""
        self.revision += 1
        self._commit(resource, Change(self.revision, key_of(old), old, None))
        return with_revision(old, self.revision)

    def check_reached(self, revision: int) -> None:
        if revision > self.revision:
            raise Timeout(
                f"Too large resource version: {revision}, current: {self.revision}",
                retry_after=1,
                causes=[{"reason": "ResourceVersionTooLarge"}],
            )

    def find(self, uid: str) -> Address | None:
        """Return where the object with a uid is; None when it is gone."""
        return self._by_uid.get(uid)

    def dependents(self, uid: str) -> list[tuple[Resource, Object]]:
        """Return the objects that name a uid among their owners, oldest reference first."""
        found = self._dependents.get(uid, ())
        return [(one.resource, self.collections[one.resource].objects[one.key]) for one in found]

    def content(self, namespace: str) -> Iterator[tuple[Resource, Object]]:
        """Return everything in a namespace, kind by kind."""
        for resource, collection in self.collections.items():
            for key in sorted(collection.by_namespace.get(namespace, ())):
                if resource.namespaced:
                    yield resource, collection.objects[key]

    def _commit(self, resource: Resource, change: Change) -> None:
        self.collections[resource].record(change)
        self._index_owners(resource, change)
        self._on_change(resource, change)

    def _index_owners(self, resource: Resource, change: Change) -> None:
        key, old, new = change.key, change.old, change.new
        if old is not None and new is not None and _same_owners(old, new):
            return  # As with nearly every write.
        if old is None and new is not None:
            self._by_uid[new["metadata"]["uid"]] = Address(resource, key)
        elif new is None and old is not None:
            del self._by_uid[old["metadata"]["uid"]]
        before, after = owners_of(old), owners_of(new)
        if before == after:
            return
        address = Address(resource, key)
        for uid in before:
            if uid not in after:
                dependents = self._dependents[uid]
                del dependents[address]
                if not dependents:
                    del self._dependents[uid]
        for uid in after:
            self._dependents.setdefault(uid, {})[address] = None


def _same_owners(old: Object, new: Object) -> bool:
    before, after = old["metadata"], new["metadata"]
    return before.get("ownerReferences") is after.get("ownerReferences")


def owners_of(obj: Object | None) -> dict[str, Any]:
    """Return the owner references by uid."""
    references = obj["metadata"].get("ownerReferences") if obj is not None else None
    return {one["uid"]: one for one in references} if references else {}
