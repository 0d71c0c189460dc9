"""Objects of a remote API server as they were last heard of, and who wants to be told."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from dovetail.operator.virtual.worker_thread import Pump
from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Object
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent

Key = tuple[str, str]
"""Namespace and name."""
_REMEMBERED_DEAD: Final = 10_000


class Subscription:
    """Changes that somebody has still to take."""

    def __init__(self, notify: Callable[[], None] | None, end: Callable[[], None]) -> None:
        self._notify = notify
        self._end = end
        self._pending: list[WatchEvent] = []

    def take(self) -> list[WatchEvent]:
        events, self._pending = self._pending, []
        return events

    def stop(self) -> None:
        self._end()

    def push(self, event: WatchEvent) -> None:
        self._pending.append(event)
        if self._notify is not None and len(self._pending) == 1:
            self._notify()


class Shelf:
    """One kind; only touched in the pump's thread."""

    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}
        self._subscriptions: list[Subscription] = []
        self._dead: set[str] = set()
        self._died: deque[str] = deque()

    def subscribe(self, notify: Callable[[], None] | None) -> Subscription:
        one = Subscription(notify, lambda: self._subscriptions.remove(one))
        self._subscriptions.append(one)
        for obj in self.objects.values():
            one.push(WatchEvent(EventType.ADDED, obj))
        return one

    def put(self, obj: Object) -> None:
        """Take an object unless something newer is known of it, or its end."""
        key, known = _key(obj), self.objects.get(_key(obj))
        if obj["metadata"]["uid"] in self._dead:
            return
        if known is not None and _revision(known) >= _revision(obj):
            return
        self.objects[key] = obj
        self._tell(EventType.ADDED if known is None else EventType.MODIFIED, obj)

    def remove(self, obj: Object) -> None:
        uid, known = obj["metadata"]["uid"], self.objects.get(_key(obj))
        self._dead.add(uid)
        self._died.append(uid)
        if len(self._died) > _REMEMBERED_DEAD:
            self._dead.discard(self._died.popleft())
        if known is not None and known["metadata"]["uid"] == uid:
            del self.objects[_key(obj)]
            self._tell(EventType.DELETED, obj)

    def replace(self, objects: Iterable[Object], *, revision: int) -> None:
        """Take a whole list: what is not in it is gone, unless it was written since."""
        there = {_key(one): one for one in objects}
        for key, known in tuple(self.objects.items()):
            now = there.get(key)
            if now is None or now["metadata"]["uid"] != known["metadata"]["uid"]:
                if _revision(known) <= revision:
                    self.remove(known)
        for one in there.values():
            self.put(one)

    def _tell(self, kind: EventType, obj: Object) -> None:
        for one in self._subscriptions:
            one.push(WatchEvent(kind, obj))


class Shadow:
    """``kube.reflector.Keeper`` that hands everything over to the pump's thread."""

    def __init__(self, kinds: Iterable[Resource], pump: Pump) -> None:
        self.shelves = {one: Shelf() for one in kinds}
        self._pump = pump

    def relist(self, resource: Resource) -> "_Listing":
        return _Listing(self.shelves[resource], self._pump)

    def put(self, resource: Resource, obj: Object) -> None:
        shelf = self.shelves[resource]
        self._pump.post(lambda: shelf.put(obj))

    def remove(self, resource: Resource, obj: Object) -> None:
        shelf = self.shelves[resource]
        self._pump.post(lambda: shelf.remove(obj))


class _Listing:
    def __init__(self, shelf: Shelf, pump: Pump) -> None:
        self._shelf = shelf
        self._pump = pump
        self._objects: list[Object] = []

    def take(self, objects: Iterable[Object]) -> None:
        self._objects += objects

    def end(self, revision: str) -> None:
        self._pump.post(lambda: self._shelf.replace(self._objects, revision=int(revision)))


def _key(obj: Object) -> Key:
    meta = obj["metadata"]
    return (meta.get("namespace", ""), meta["name"])


def _revision(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
