"""Watch cache of virtual kubelets: stores of a remote API server, with watches.

Reflectors run on the asyncio loop; the stores belong to the worker thread. Every
change is therefore posted to that thread.
"""

from collections.abc import Callable, Iterable

from dovetail.operator.virtual.worker_thread import WorkerThread
from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Object
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.state.cluster.store import ObjectChange, Store


class Subscription:
    """Watch events of one kind that a subscriber has not polled yet."""

    def __init__(self, store: Store[Object], notify: Callable[[], None] | None) -> None:
        self._notify = notify
        self._is_stopped = False
        self._pending: list[WatchEvent] = []
        store.subscribe(self._push)

    def poll(self) -> list[WatchEvent]:
        """Return and remove the pending events."""
        events, self._pending = self._pending, []
        return events

    def stop(self) -> None:
        """Ignore events from now on."""
        self._is_stopped = True

    def _push(self, change: ObjectChange) -> None:
        if self._is_stopped:
            return
        if change.new is None:
            event = WatchEvent(EventType.DELETED, change.old)
        else:
            kind = EventType.ADDED if change.old is None else EventType.MODIFIED
            event = WatchEvent(kind, change.new)
        self._pending.append(event)
        if self._notify is not None and len(self._pending) == 1:
            self._notify()


class WatchCache:
    """``kube.reflector.ReflectorStore`` that posts every change to the worker thread."""

    def __init__(self, resources: Iterable[Resource], worker: WorkerThread) -> None:
        # Kubelets read API objects as they are, without decoding.
        self.stores: dict[Resource, Store[Object]] = {
            resource: Store(resource, lambda obj, _old, _model: obj) for resource in resources
        }
        """Only the worker thread may use them."""
        self._worker = worker

    def begin_relist(self, resource: Resource) -> "_Relist":
        """Begin to replace all objects of a kind."""
        return _Relist(self.stores[resource], self._worker)

    def apply_event(self, resource: Resource, obj: Object) -> None:
        """Add or update an object."""
        self._worker.post(lambda: self.stores[resource].apply_event(obj))

    def delete(self, resource: Resource, obj: Object) -> None:
        """Delete an object."""
        self._worker.post(lambda: self.stores[resource].delete(obj))


class _Relist:
    """A list in pages, applied as a whole in the worker thread."""

    def __init__(self, store: Store[Object], worker: WorkerThread) -> None:
        self._store = store
        self._worker = worker
        self._objects: list[Object] = []

    def add(self, objects: Iterable[Object]) -> None:
        self._objects += objects

    def finish(self, revision: str) -> None:
        self._worker.post(lambda: self._store.replace(self._objects, revision))
