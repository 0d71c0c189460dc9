"""Watches: each write becomes an event for every watch whose selectors match.

A write is ADDED, MODIFIED or DELETED from the point of view of a watch: an object
that stops matching the selectors is DELETED for it.
"""

from collections import deque
from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import count
from typing import Final

import msgspec

from dovetail.ports.api_resources import Resource
from dovetail.simulator.apiserver.storage.frozen_object import Object, freeze
from dovetail.simulator.apiserver.storage.selectors import SelectionPredicate, field_value
from dovetail.simulator.apiserver.storage.store import Change, with_resource_version


class EventType(StrEnum):
    """Type of a watch event, from the point of view of one watch."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class WatchEvent(msgspec.Struct, frozen=True):
    """Event type and the object after the change.

    For DELETED it is the object before the change, with the new resourceVersion.
    """

    type: EventType
    object: Object


IndexKey = tuple[str, str]
"""Field and value: the most selective condition of a watch."""

_ALL: IndexKey = ("", "")
_EVERYTHING: Final = SelectionPredicate()


class Watch:
    """Queue of events that the watcher polls.

    ``notify`` is called when the queue stops being empty. It runs in the middle of a
    write: it may set a flag or schedule a later ``poll``, but must not call the server.
    """

    def __init__(
        self,
        predicate: SelectionPredicate,
        *,
        allow_bookmarks: bool,
        notify: Callable[[], None] | None,
        on_stop: Callable[["Watch"], None],
    ) -> None:
        self.predicate = predicate
        self.matches_all = predicate == _EVERYTHING
        self.allow_bookmarks = allow_bookmarks
        self._notify = notify
        self._on_stop = on_stop
        self._pending: deque[WatchEvent] = deque()
        self.closed = False
        """True once the server ended the watch: its kind was removed."""

    def poll(self) -> list[WatchEvent]:
        """Return the events since the last call, oldest first."""
        events = list(self._pending)
        self._pending.clear()
        return events

    def stop(self) -> None:
        """Stop the watch and drop queued events."""
        self._pending.clear()
        self._on_stop(self)

    def close(self) -> None:
        """End the watch after the events in its queue."""
        self.closed = True
        if self._notify is not None:
            self._notify()

    def enqueue(self, event: WatchEvent) -> None:
        self._pending.append(event)
        if self._notify is not None and len(self._pending) == 1:
            self._notify()


class _ChangeEvents:
    """The up to three events of one change, each created once for all watches."""

    __slots__ = ("_events", "change", "for_all")

    def __init__(self, change: Change) -> None:
        self.change = change
        self._events: dict[EventType, WatchEvent] = {}
        self.for_all = self._event_for_all()
        """The event for a watch without selectors."""

    def _event_for_all(self) -> WatchEvent | None:
        old, new = self.change.old, self.change.new
        if new is not None:
            return self._event(EventType.ADDED if old is None else EventType.MODIFIED, new)
        return None if old is None else self._event(EventType.DELETED, old)

    def for_predicate(self, predicate: SelectionPredicate) -> WatchEvent | None:
        """Return the event for a watch; None if it matches neither before nor after."""
        old, new = self.change.old, self.change.new
        matched_before = old is not None and predicate.matches(old)
        if new is not None and predicate.matches(new):
            return self._event(EventType.MODIFIED if matched_before else EventType.ADDED, new)
        return self._event(EventType.DELETED, old) if matched_before and old is not None else None

    def _event(self, event_type: EventType, obj: Object) -> WatchEvent:
        event = self._events.get(event_type)
        if event is None:
            if event_type is EventType.DELETED:
                obj = with_resource_version(obj, self.change.revision)
            event = self._events[event_type] = WatchEvent(event_type, obj)
        return event


class WatchBroadcaster:
    """Dispatches changes to watches.

    Watches are indexed by their most selective condition, as in Kubernetes' watch
    cache: a change is matched only against watches that it may concern.
    """

    def __init__(self) -> None:
        self._watches: dict[Resource, dict[IndexKey, dict[int, Watch]]] = {}
        self._ids = count()

    def publish(self, resource: Resource, change: Change) -> None:
        """Enqueue the events of a change."""
        index = self._watches.get(resource)
        if not index:
            return
        events = _ChangeEvents(change)
        # Mostly all watches of a kind are of all its objects.
        index_keys = tuple(index) if len(index) == 1 else _index_keys(resource, change)
        for index_key in index_keys:
            watches = index.get(index_key)
            if watches:
                for watch in tuple(watches.values()):
                    event = events.for_all if watch.matches_all else events.for_predicate(watch.predicate)
                    if event is not None:
                        watch.enqueue(event)

    def open(
        self,
        resource: Resource,
        predicate: SelectionPredicate,
        *,
        allow_bookmarks: bool = False,
        notify: Callable[[], None] | None = None,
    ) -> Watch:
        """Start a watch of all changes from now on."""
        index_key = _watch_index_key(resource, predicate)
        watches = self._watches.setdefault(resource, {}).setdefault(index_key, {})
        watch_id = next(self._ids)

        def unregister(_: Watch) -> None:
            watches.pop(watch_id, None)
            index = self._watches.get(resource, {})
            if not watches and index.get(index_key) is watches:
                del index[index_key]

        watch = Watch(predicate, allow_bookmarks=allow_bookmarks, notify=notify, on_stop=unregister)
        watches[watch_id] = watch
        return watch

    def close(self, resource: Resource) -> None:
        """End all watches of a kind."""
        for watches in self._watches.pop(resource, {}).values():
            for watch in watches.values():
                watch.close()

    def send_bookmarks(self, revision: int) -> None:
        """Enqueue a bookmark at a revision for all watches that allow bookmarks."""
        for resource, index in self._watches.items():
            event = bookmark_event(resource, revision)
            for watches in tuple(index.values()):
                for watch in tuple(watches.values()):
                    if watch.allow_bookmarks:
                        watch.enqueue(event)


def replay(watch: Watch, changes: Iterable[Change]) -> None:
    """Enqueue the events of earlier changes."""
    for change in changes:
        event = _ChangeEvents(change).for_predicate(watch.predicate)
        if event is not None:
            watch.enqueue(event)


def bookmark_event(resource: Resource, revision: int, *, ends_initial_events: bool = False) -> WatchEvent:
    """Return a BOOKMARK event, which carries only a resourceVersion."""
    meta: dict[str, object] = {"resourceVersion": str(revision)}
    if ends_initial_events:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
    return WatchEvent(EventType.BOOKMARK, freeze(obj))


def _watch_index_key(resource: Resource, predicate: SelectionPredicate) -> IndexKey:
    for field in ("metadata.name", *resource.indexed_fields):
        value = predicate.exact_match(field)
        if value is not None:
            return field, value
    if predicate.namespace:
        return "metadata.namespace", predicate.namespace
    return _ALL


def _index_keys(resource: Resource, change: Change) -> list[IndexKey]:
    """Return the index keys of all watches that a change may concern."""
    namespace, name = change.key
    keys = [_ALL, ("metadata.namespace", namespace), ("metadata.name", name)]
    for field in resource.indexed_fields:
        before = None if change.old is None else field_value(change.old, field)
        after = None if change.new is None else field_value(change.new, field)
        if before is not None:
            keys.append((field, before))
        if after is not None and after != before:
            keys.append((field, after))
    return keys
