"""One kind of object as the mirror keeps it: newest version wins, late news is ignored."""

from collections.abc import Callable, Hashable, Iterable, ValuesView
from typing import Any, Generic, TypeVar

import msgspec

from dovetail.ports.kube import Object
from dovetail.ports.resources import Resource

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


class Table(Generic[Model]):
    """Objects by namespace and name, with indexes that follow every change."""

    def __init__(self, resource: Resource, decode: Callable[[Object], Model]) -> None:
        self.resource = resource
        self.listed = False
        self._decode = decode
        self._rows: dict[ObjectKey, _Row[Model]] = {}
        self._models: dict[ObjectKey, Model] = {}
        self._tombs: dict[ObjectKey, str] = {}
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

    def subscribe(self, handler: Handler) -> None:
        """Have a handler told of what is there and of every change."""
        self._handlers.append(handler)
        for model in tuple(self._models.values()):
            handler(Change(self.resource, None, model))

    def put(self, obj: Object) -> None:
        """Take an object as a watch, a list or an answer shows it."""
        meta = obj["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        uid, revision = meta.get("uid", ""), int(meta.get("resourceVersion") or 0)
        known = self._rows.get(key)
        if known is not None and known.uid == uid and revision <= known.revision:
            return
        if self._tombs.get(key) == uid:
            return  # News from before we deleted it.
        if known is not None and known.uid != uid:
            self._drop(key)  # Deleted and made again while nobody looked.
        model = self._decode(obj)
        old = self._models.get(key)
        self._rows[key] = _Row(uid, revision, model)
        self._models[key] = model
        self._tell(old, model)

    def remove(self, obj: Object) -> None:
        """Take note that an object is gone, as a watch tells it."""
        meta = obj["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        if self._tombs.get(key) == meta.get("uid", ""):
            del self._tombs[key]
        known = self._rows.get(key)
        if known is not None and known.uid == meta.get("uid", ""):
            self._drop(key)

    def bury(self, name: str, namespace: str) -> None:
        """Drop an object that we have just deleted, before the watch tells of it."""
        key = (namespace, name)
        known = self._rows.get(key)
        if known is not None:
            self._tombs[key] = known.uid
            self._drop(key)

    def replace(self, objects: Iterable[Object]) -> None:
        """Take a whole list: what is not in it is gone."""
        seen: set[ObjectKey] = set()
        for obj in objects:
            meta = obj["metadata"]
            seen.add((meta.get("namespace", ""), meta["name"]))
            self.put(obj)
        for key in self._rows.keys() - seen:
            self._drop(key)
        self._tombs.clear()
        self.listed = True

    def _drop(self, key: ObjectKey) -> None:
        del self._rows[key]
        self._tell(self._models.pop(key), None)

    def _tell(self, old: Model | None, new: Model | None) -> None:
        self._all = None
        change = Change(self.resource, old, new)
        for handler in self._handlers:
            handler(change)


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
