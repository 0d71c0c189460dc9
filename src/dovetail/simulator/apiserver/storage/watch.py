"""Watches: every write, as each watcher's own selection sees it."""

from collections import deque
from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import count

import msgspec

from dovetail.ports.api_resources import Resource
from dovetail.simulator.apiserver.storage.frozen_object import Object, freeze
from dovetail.simulator.apiserver.storage.selectors import Selection, field_text
from dovetail.simulator.apiserver.storage.store import Change, with_revision


class EventType(StrEnum):
    """What happened, from the point of view of one watcher."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class WatchEvent(msgspec.Struct, frozen=True):
    """What happened and the object after it (for DELETED: before, at the new revision)."""

    type: EventType
    object: Object


Bucket = tuple[str, str]
"""A field and its value: the most telling condition a watch has."""

_EVERYTHING: Bucket = ("", "")


class Watch:
    """A queue of events that the watcher takes when it likes.

    ``notify`` is called when the queue stops being empty. That happens in the
    middle of somebody's write, so it must only make a note or arrange for a
    later ``take``, never call the server.
    """

    def __init__(
        self,
        selection: Selection,
        *,
        bookmarks: bool,
        notify: Callable[[], None] | None,
        on_stop: Callable[["Watch"], None],
    ) -> None:
        self.selection = selection
        self.wants_bookmarks = bookmarks
        self._notify = notify
        self._on_stop = on_stop
        self._pending: deque[WatchEvent] = deque()

    def take(self) -> list[WatchEvent]:
        """Return what happened since the last call, oldest first."""
        events = list(self._pending)
        self._pending.clear()
        return events

    def stop(self) -> None:
        """End the watch; nothing more arrives."""
        self._pending.clear()
        self._on_stop(self)

    def push(self, event: WatchEvent) -> None:
        self._pending.append(event)
        if self._notify is not None and len(self._pending) == 1:
            self._notify()


class _Telling:
    """The up to three events that one change can be, each made at most once."""

    __slots__ = ("_events", "change")

    def __init__(self, change: Change) -> None:
        self.change = change
        self._events: dict[EventType, WatchEvent] = {}

    def to(self, selection: Selection) -> WatchEvent | None:
        old, new = self.change.old, self.change.new
        # Whether it was shown before decides what the change is to this watch.
        shown = old is not None and selection.matches(old)
        if new is not None and selection.matches(new):
            return self._event(EventType.MODIFIED if shown else EventType.ADDED, new)
        return self._event(EventType.DELETED, old) if shown and old is not None else None

    def _event(self, kind: EventType, obj: Object) -> WatchEvent:
        event = self._events.get(kind)
        if event is None:
            if kind is EventType.DELETED:
                obj = with_revision(obj, self.change.revision)
            event = self._events[kind] = WatchEvent(kind, obj)
        return event


class WatchHub:
    """Finds the watchers a change may concern without asking all of them."""

    def __init__(self) -> None:
        self._buckets: dict[Resource, dict[Bucket, dict[int, Watch]]] = {}
        self._numbers = count()

    def publish(self, resource: Resource, change: Change) -> None:
        buckets = self._buckets.get(resource)
        if not buckets:
            return
        telling = _Telling(change)
        for bucket in _buckets_of(resource, change):
            watchers = buckets.get(bucket)
            if watchers:
                for watch in tuple(watchers.values()):
                    event = telling.to(watch.selection)
                    if event is not None:
                        watch.push(event)

    def open(
        self,
        resource: Resource,
        selection: Selection,
        *,
        bookmarks: bool = False,
        notify: Callable[[], None] | None = None,
    ) -> Watch:
        """Start a watch of everything that happens from now on."""
        bucket = _bucket_for(resource, selection)
        watchers = self._buckets.setdefault(resource, {}).setdefault(bucket, {})
        number = next(self._numbers)

        def forget(_: Watch) -> None:
            watchers.pop(number, None)
            if not watchers and self._buckets[resource].get(bucket) is watchers:
                del self._buckets[resource][bucket]

        watch = Watch(selection, bookmarks=bookmarks, notify=notify, on_stop=forget)
        watchers[number] = watch
        return watch

    def bookmark(self, revision: int) -> None:
        """Tell all who want bookmarks that they have seen everything up to a revision."""
        for resource, buckets in self._buckets.items():
            event = bookmark(resource, revision)
            for watchers in tuple(buckets.values()):
                for watch in tuple(watchers.values()):
                    if watch.wants_bookmarks:
                        watch.push(event)


def replay(watch: Watch, changes: Iterable[Change]) -> None:
    """Put earlier changes on a watch's queue."""
    for change in changes:
        event = _Telling(change).to(watch.selection)
        if event is not None:
            watch.push(event)


def bookmark(resource: Resource, revision: int, *, ends_list: bool = False) -> WatchEvent:
    """Return an event that only carries a revision."""
    meta: dict[str, object] = {"resourceVersion": str(revision)}
    if ends_list:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    shown = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
    return WatchEvent(EventType.BOOKMARK, freeze(shown))


def _bucket_for(resource: Resource, selection: Selection) -> Bucket:
    for field in ("metadata.name", *resource.indexed_fields):
        value = selection.value_of(field)
        if value is not None:
            return field, value
    if selection.namespace:
        return "metadata.namespace", selection.namespace
    return _EVERYTHING


def _buckets_of(resource: Resource, change: Change) -> list[Bucket]:
    namespace, name = change.key
    found = [_EVERYTHING, ("metadata.namespace", namespace), ("metadata.name", name)]
    for field in resource.indexed_fields:
        before = None if change.old is None else field_text(change.old, field)
        after = None if change.new is None else field_text(change.new, field)
        if before is not None:
            found.append((field, before))
        if after is not None and after != before:
            found.append((field, after))
    return found
