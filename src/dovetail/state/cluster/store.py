"""One kind of object as the mirror keeps it: newest version wins, late news is ignored."""

from collections.abc import Callable, Hashable, Iterable, ValuesView
from typing import Any, Generic, TypeVar

import msgspec

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Object

Model = TypeVar("Model")
ObjectKey = tuple[str, str]
"""Namespace (empty for what has none) and name."""


class Change(msgspec.Struct, frozen=True):
    """An object before and after; None where it was not there, or is no more."""

    resource: Resource
    old: Any
    new: Any

    @property
    def either(self) -> Any:
        """The object as it is, or as it was last."""
        return self.old if self.new is None else self.new


Handler = Callable[[Change], None]


class _Row(msgspec.Struct, Generic[Model]):
    uid: str
    revision: int
    model: Model
    wire: Object | None


class Table(Generic[Model]):
    """Objects by namespace and name, with indexes that follow every change.

    News comes two ways that know nothing of each other: a watch, in the order in
    which things happened, and answers to what we wrote, which may be early or
    late. Resource versions say which of two pictures of one name is the newer.
    """

    def __init__(
        self, resource: Resource, decode: Callable[[Object], Model], *, keep_wire: bool = False
    ) -> None:
        self.resource = resource
        self.listed = False
        self._decode = decode
        self._keep_wire = keep_wire
        self._rows: dict[ObjectKey, _Row[Model]] = {}
        self._models: dict[ObjectKey, Model] = {}
        self._tombs: set[str] = set()
        """Uids that we deleted, until the watch has told of that."""
        self._told = 0
        """The revision up to which watch and lists have told everything."""
        self._handlers: list[Handler] = []
        self._all: tuple[Model, ...] | None = None

    def __len__(self) -> int:
        return len(self._models)

    def get(self, name: str, namespace: str = "") -> Model | None:
        return self._models.get((namespace, name))

    def values(self) -> ValuesView[Model]:
        return self._models.values()

    def all(self) -> tuple[Model, ...]:
        """Return everything, by name; the same tuple until something changes."""
        if self._all is None:
            self._all = tuple(self._models[key] for key in sorted(self._models))
        return self._all

    def wire(self, name: str, namespace: str = "") -> Object | None:
        """Return an object as it was on the wire, in a table that keeps that."""
        row = self._rows.get((namespace, name))
        return None if row is None else row.wire

    def uid(self, name: str, namespace: str = "") -> str:
        """Return the uid of an object; empty when there is none."""
        row = self._rows.get((namespace, name))
        return "" if row is None else row.uid

    def subscribe(self, handler: Handler) -> None:
        """Have a handler told of what is there and of every change."""
        self._handlers.append(handler)
        for model in tuple(self._models.values()):
            handler(Change(self.resource, None, model))

    def put(self, obj: Object) -> None:
        """Take an object as the watch shows it."""
        self._told = max(self._told, _revision(obj))
        self._take(obj)

    def answered(self, obj: Object) -> None:
        """Take an object as the answer to a write shows it, which may come late."""
        meta = obj["metadata"]
        if _key(meta) not in self._rows and _revision(obj) <= self._told:
            return  # The watch has told of this already, and of its end.
        self._take(obj)

    def remove(self, obj: Object) -> None:
        """Take note that an object is gone, as the watch tells it."""
        self._told = max(self._told, _revision(obj))
        meta = obj["metadata"]
        self._tombs.discard(meta.get("uid", ""))
        known = self._rows.get(_key(meta))
        if known is not None and known.uid == meta.get("uid", ""):
            self._drop(_key(meta))

    def bury(self, name: str, namespace: str, uid: str) -> None:
        """Drop an object that we have just deleted, before the watch tells of it."""
        known = self._rows.get((namespace, name))
        if known is not None and known.uid == uid:
            self._tombs.add(uid)
            self._drop((namespace, name))

    def replace(self, objects: Iterable[Object], revision: str = "") -> None:
        """Take a whole list: what is not in it is gone, unless it is newer than the list."""
        listing = self.relist()
        listing.take(objects)
        listing.end(revision)

    def relist(self) -> "Listing[Model]":
        """Begin to take a whole list that comes page by page."""
        return Listing(self)

    def _take(self, obj: Object) -> None:
        meta = obj["metadata"]
        key, uid, revision = _key(meta), meta.get("uid", ""), _revision(obj)
        known = self._rows.get(key)
        if known is not None and revision <= known.revision:
            return
        if uid in self._tombs:
            return  # News from before we deleted it.
        if known is not None and known.uid != uid:
            self._drop(key)  # Deleted and made again while nobody looked.
        model = self._decode(obj)
        old = self._models.get(key)
        self._rows[key] = _Row(uid, revision, model, obj if self._keep_wire else None)
        self._models[key] = model
        self._tell(old, model)

    def _keep_only(self, seen: set[ObjectKey], uids: set[str], at: int) -> None:
        for key in self._rows.keys() - seen:
            if not at or self._rows[key].revision <= at:
                self._drop(key)
        self._tombs &= uids  # The list was older than these deaths; the watch will tell.
        self._told = max(self._told, at)
        self.listed = True

    def _drop(self, key: ObjectKey) -> None:
        del self._rows[key]
        self._tell(self._models.pop(key), None)

    def _tell(self, old: Model | None, new: Model | None) -> None:
        self._all = None
        change = Change(self.resource, old, new)
        for handler in self._handlers:
            handler(change)


class Listing(Generic[Model]):
    """A list being taken; one that never comes to its end removes nothing."""

    def __init__(self, table: Table[Model]) -> None:
        self._table = table
        self._seen: set[ObjectKey] = set()
        self._uids: set[str] = set()

    def take(self, objects: Iterable[Object]) -> None:
        """Take some of the list's objects."""
        for obj in objects:
            self._seen.add(_key(obj["metadata"]))
            self._uids.add(obj["metadata"].get("uid", ""))
            self._table._take(obj)

    def end(self, revision: str) -> None:
        """Drop what was not in the list, which is as of ``revision``."""
        self._table._keep_only(self._seen, self._uids, int(revision or 0))


def _key(meta: Object) -> ObjectKey:
    return meta.get("namespace", ""), meta["name"]


def _revision(obj: Object) -> int:
    return int(obj["metadata"].get("resourceVersion") or 0)


Entry = TypeVar("Entry", bound=Hashable)


class Index(Generic[Entry, Model]):
    """Objects by something they say; follows a table."""

    def __init__(
        self,
        table: Table[Model],
        entries: Callable[[Model], Iterable[Entry]],
        identity: Callable[[Model], Hashable],
    ) -> None:
        self._entries = entries
        self._identity = identity
        self._found: dict[Entry, dict[Hashable, Model]] = {}
        table.subscribe(self._follow)

    def __getitem__(self, entry: Entry) -> tuple[Model, ...]:
        found = self._found.get(entry)
        return tuple(found.values()) if found else ()

    def _follow(self, change: Change) -> None:
        before = () if change.old is None else tuple(self._entries(change.old))
        after = () if change.new is None else tuple(self._entries(change.new))
        for entry in before:
            if entry not in after:
                left = self._found[entry]
                left.pop(self._identity(change.old), None)
                if not left:
                    del self._found[entry]
        for entry in after:
            self._found.setdefault(entry, {})[self._identity(change.new)] = change.new
