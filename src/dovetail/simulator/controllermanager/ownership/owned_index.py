"""Objects of one kind by the uid of whoever controls them."""

from collections.abc import Callable
from dataclasses import dataclass

from dovetail.ports.api_resources import Resource
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.index import Key
from dovetail.simulator.apiserver.storage.store import key_of
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.context import Site
from dovetail.simulator.controllermanager.owner_references import controller_of
from dovetail.simulator.workqueue import follow


@dataclass(frozen=True)
class Child:
    """What happened to an object, and where those are that control or controlled it."""

    obj: Object
    gone: bool
    owners: tuple[tuple[str, Key], ...]
    """Kind and key of the controllers before and after; none for orphans."""


class Offspring:
    """Follows all objects of a kind; ``tell`` hears of every change, after it is noted here."""

    def __init__(self, site: Site, resource: Resource, tell: Callable[[Child], None]) -> None:
        self._tell = tell
        self._owners: dict[Key, Object | None] = {}
        self._children: dict[str, dict[Key, None]] = {}
        self.orphans: dict[str, dict[Key, None]] = {}
        """Keys of those that nobody controls, by namespace."""
        follow(site.api, site.engine, resource, self._heard)

    def of(self, uid: str) -> list[Key]:
        """Return the keys of what the object with a uid controls, oldest first."""
        return list(self._children.get(uid, ()))

    def _heard(self, event: WatchEvent) -> None:
        obj, key = event.object, key_of(event.object)
        gone = event.type is EventType.DELETED
        known = key in self._owners
        before, after = self._owners.pop(key, None), controller_of(obj)
        if not gone:
            self._owners[key] = after
        if known and (gone or before != after):
            self._drop(key, before)
        if not gone and (not known or before != after):
            group = self.orphans if after is None else self._children
            group.setdefault(key[0] if after is None else after["uid"], {})[key] = None
        owners = {(one["kind"], (key[0], one["name"])): None for one in (before, after) if one}
        self._tell(Child(obj, gone, tuple(owners)))

    def _drop(self, key: Key, owner: Object | None) -> None:
        group = self.orphans if owner is None else self._children
        name = key[0] if owner is None else owner["uid"]
        del group[name][key]
        if not group[name]:
            del group[name]
