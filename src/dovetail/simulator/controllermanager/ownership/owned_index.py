"""Index of the objects of one kind by the UID of their controller."""

from collections.abc import Callable, Iterable

from dovetail.ports.api_resources import Resource
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.store import ObjectKey, object_key
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.context import ManagerContext
from dovetail.simulator.controllermanager.owner_references import controller_of
from dovetail.simulator.workqueue import start_watch

OwnedEventHandler = Callable[[WatchEvent, Iterable[tuple[str, ObjectKey]]], None]
"""Called with an event, and kind and key of the controllers before and after it."""


class OwnedIndex:
    """Watches all objects of a kind; calls ``handler`` after updating the index."""

    def __init__(
        self, context: ManagerContext, resource: Resource, handler: OwnedEventHandler = lambda *_: None
    ) -> None:
        self._context = context
        self._resource = resource
        self._handler = handler
        self._owners: dict[ObjectKey, Object | None] = {}
        self._owned: dict[str, dict[ObjectKey, None]] = {}
        self.orphans: dict[str, dict[ObjectKey, None]] = {}
        """Namespace → keys of objects without a controller."""
        start_watch(context.api, context.clock, resource, self._handle_event)

    def owned_by(self, uid: str) -> list[Object]:
        """Return the objects that a UID controls, oldest first."""
        objects = (self._context.find(self._resource, key) for key in tuple(self._owned.get(uid, ())))
        return [obj for obj in objects if obj is not None]

    def _handle_event(self, event: WatchEvent) -> None:
        key = object_key(event.object)
        deleted = event.type is EventType.DELETED
        existed = key in self._owners
        before, after = self._owners.pop(key, None), controller_of(event.object)
        if not deleted:
            self._owners[key] = after
        if existed and (deleted or before != after):
            self._remove(key, before)
        if not deleted and (not existed or before != after):
            index = self.orphans if after is None else self._owned
            index.setdefault(key[0] if after is None else after["uid"], {})[key] = None
        owners = {(owner["kind"], (key[0], owner["name"])): None for owner in (before, after) if owner}
        self._handler(event, owners)

    def _remove(self, key: ObjectKey, owner: Object | None) -> None:
        index = self.orphans if owner is None else self._owned
        name = key[0] if owner is None else owner["uid"]
        del index[name][key]
        if not index[name]:
            del index[name]
