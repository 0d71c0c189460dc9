"""Store and index of the objects of one kind; the newest resource version wins."""

from collections.abc import Callable, Hashable, Iterable, ValuesView
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Object

Model = TypeVar("Model")
Decoded = TypeVar("Decoded")
ObjectKey = tuple[str, str]
"""Namespace (empty for cluster-scoped kinds) and name."""


class ObjectChange(msgspec.Struct, frozen=True):
    """Watch event as handlers see it: the object before and after.

    ``old`` is None for an added, ``new`` for a deleted object.
    """

    resource: Resource
    old: Any
    new: Any

    @property
    def latest(self) -> Any:
        """The new object, or the last state of a deleted one."""
        return self.old if self.new is None else self.new


EventHandler = Callable[[ObjectChange], None]


class _StoredObject(msgspec.Struct, Generic[Model]):
    uid: str
    version: int
    model: Model
    raw: Object | None


class Decoder(Protocol, Generic[Decoded]):
    """Decodes an object; ``old`` is the version before it in a store with ``keep_raw``."""

    def __call__(self, obj: Object, old: Object | None, model: Decoded | None, /) -> Decoded: ...


class Store(Generic[Model]):
    """Objects by namespace and name; notifies handlers and indexes of every change.

    Objects arrive from two sources that are not synchronized: a watch, in order,
    and responses to own writes, which may be early or late. The higher resource
    version of two states of one name is the newer one.
    """

    def __init__(self, resource: Resource, decode: Decoder[Model], *, keep_raw: bool = False) -> None:
        self.resource = resource
        self.has_synced = False
        self._decode = decode
        self._keep_raw = keep_raw
        self._objects: dict[ObjectKey, _StoredObject[Model]] = {}
        self._models: dict[ObjectKey, Model] = {}
        self._tombstones: set[str] = set()
        """UIDs of objects that this process deleted, until the watch reports it."""
        self._observed_version = 0
        """Resource version up to which watch and lists are complete."""
        self._handlers: list[EventHandler] = []
        self._all: tuple[Model, ...] | None = None

    def __len__(self) -> int:
        return len(self._models)

    def get(self, name: str, namespace: str = "") -> Model | None:
        return self._models.get((namespace, name))

    def values(self) -> ValuesView[Model]:
        return self._models.values()

    def all(self) -> tuple[Model, ...]:
        """Return all objects by namespace and name; the same tuple until one changes."""
        if self._all is None:
            self._all = tuple(self._models[key] for key in sorted(self._models))
        return self._all

    def raw(self, name: str, namespace: str = "") -> Object | None:
        """Return an undecoded object; None in a store without ``keep_raw``."""
        stored = self._objects.get((namespace, name))
        return None if stored is None else stored.raw

    def uid(self, name: str, namespace: str = "") -> str:
        """Return the UID of an object; empty if it does not exist."""
        stored = self._objects.get((namespace, name))
        return "" if stored is None else stored.uid

    def subscribe(self, handler: EventHandler) -> None:
        """Call a handler for every existing object and every later change."""
        self._handlers.append(handler)
        for model in tuple(self._models.values()):
            handler(ObjectChange(self.resource, None, model))

    def apply_event(self, obj: Object) -> None:
        """Apply an added or modified object of a watch."""
        self._observed_version = max(self._observed_version, _get_version(obj))
        self._upsert(obj)

    def apply_response(self, obj: Object) -> None:
        """Apply an object from the response to a write; it may be late."""
        meta = obj["metadata"]
        if _get_key(meta) not in self._objects and _get_version(obj) <= self._observed_version:
            return  # The watch has already reported this state and the deletion after it.
        self._upsert(obj)

    def delete(self, obj: Object) -> None:
        """Apply a deletion of a watch."""
        self._observed_version = max(self._observed_version, _get_version(obj))
        meta = obj["metadata"]
        self._tombstones.discard(meta.get("uid", ""))
        stored = self._objects.get(_get_key(meta))
        if stored is not None and stored.uid == meta.get("uid", ""):
            self._remove(_get_key(meta))

    def mark_deleted(self, name: str, namespace: str, uid: str) -> None:
        """Remove an object that this process deleted, before the watch reports it."""
        stored = self._objects.get((namespace, name))
        if stored is not None and stored.uid == uid:
            self._tombstones.add(uid)
            self._remove((namespace, name))

    def replace(self, objects: Iterable[Object], revision: str = "") -> None:
        """Replace all objects by a list; objects newer than the list are kept."""
        relist = self.begin_relist()
        relist.add(objects)
        relist.finish(revision)

    def load(self, models: Iterable[Any]) -> None:
        """Add decoded objects that come from files or another store."""
        for model in models:
            if model is not None:
                key = (model.namespace if self.resource.namespaced else "", model.name)
                self._objects[key] = _StoredObject("", 0, model, None)
                self._models[key] = model
                self._notify(None, model)
        self.has_synced = True

    def begin_relist(self) -> "Relist[Model]":
        """Begin to replace all objects by a list that arrives in pages."""
        return Relist(self)

    def _upsert(self, obj: Object) -> None:
        meta = obj["metadata"]
        key, uid, version = _get_key(meta), meta.get("uid", ""), _get_version(obj)
        stored = self._objects.get(key)
        if stored is not None and version <= stored.version:
            return
        if uid in self._tombstones:
            return  # A state from before the deletion by this process.
        if stored is not None and stored.uid != uid:
            self._remove(key)  # Deleted and recreated between two lists.
        old = self._models.get(key)
        model = self._decode(obj, stored.raw if stored is not None and old is not None else None, old)
        self._objects[key] = _StoredObject(uid, version, model, obj if self._keep_raw else None)
        self._models[key] = model
        self._notify(old, model)

    def _finish_relist(self, keys: set[ObjectKey], uids: set[str], version: int) -> None:
        for key in self._objects.keys() - keys:
            if not version or self._objects[key].version <= version:
                self._remove(key)
        # Deleted objects in the list: it is older than their deletion, which the watch will report.
        self._tombstones &= uids
        self._observed_version = max(self._observed_version, version)
        self.has_synced = True

    def _remove(self, key: ObjectKey) -> None:
        del self._objects[key]
        self._notify(self._models.pop(key), None)

    def _notify(self, old: Model | None, new: Model | None) -> None:
        self._all = None
        change = ObjectChange(self.resource, old, new)
        for handler in self._handlers:
            handler(change)


class Relist(Generic[Model]):
    """A list in pages; objects are removed only when it is finished."""

    def __init__(self, store: Store[Model]) -> None:
        self._store = store
        self._keys: set[ObjectKey] = set()
        self._uids: set[str] = set()

    def add(self, objects: Iterable[Object]) -> None:
        """Add a page."""
        for obj in objects:
            self._keys.add(_get_key(obj["metadata"]))
            self._uids.add(obj["metadata"].get("uid", ""))
            self._store._upsert(obj)

    def finish(self, revision: str) -> None:
        """Remove objects that are not in the list; ``revision`` is its resource version."""
        self._store._finish_relist(self._keys, self._uids, int(revision or 0))


def _get_key(meta: Object) -> ObjectKey:
    return meta.get("namespace", ""), meta["name"]


def _get_version(obj: Object) -> int:
    return int(obj["metadata"].get("resourceVersion") or 0)


IndexKey = TypeVar("IndexKey", bound=Hashable)


class Index(Generic[IndexKey, Model]):
    """Objects of a store by computed keys; updated with the store."""

    def __init__(
        self,
        store: Store[Model],
        get_index_keys: Callable[[Model], Iterable[IndexKey]],
        get_object_key: Callable[[Model], Hashable],
    ) -> None:
        self._get_index_keys = get_index_keys
        self._get_object_key = get_object_key
        self._objects: dict[IndexKey, dict[Hashable, Model]] = {}
        store.subscribe(self._update)

    def __getitem__(self, key: IndexKey) -> tuple[Model, ...]:
        objects = self._objects.get(key)
        return tuple(objects.values()) if objects else ()

    def _update(self, change: ObjectChange) -> None:
        before = () if change.old is None else tuple(self._get_index_keys(change.old))
        after = () if change.new is None else tuple(self._get_index_keys(change.new))
        for key in before:
            if key not in after:
                remaining = self._objects[key]
                remaining.pop(self._get_object_key(change.old), None)
                if not remaining:
                    del self._objects[key]
        for key in after:
            self._objects.setdefault(key, {})[self._get_object_key(change.new)] = change.new
