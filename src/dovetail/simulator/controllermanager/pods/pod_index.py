"""Index of all pods by controller and by node.

Counts are updated with each watch event, so that a change of one pod costs the same
however many pods its controller has.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple

from dovetail.ports.api_resources import PODS
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.store import ObjectKey, object_key
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.controllermanager.owner_references import controller_of
from dovetail.simulator.workqueue import start_watch


class PodState(Enum):
    """State of a pod, as its controller counts it."""

    NOT_READY = "not ready"
    READY = "ready"
    TERMINATING = "terminating"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


ACTIVE = frozenset({PodState.NOT_READY, PodState.READY})

PodHandler = Callable[[Object | None, Object | None], None]
"""Called with a pod before and after a change; None where it does not exist."""


class IndexedPod(NamedTuple):
    """A pod and its state."""

    pod: Object
    state: PodState


class OwnedPods:
    """The pods of one controller by name, with a count for each state."""

    __slots__ = ("_counts", "members", "unchecked")

    def __init__(self) -> None:
        self.members: dict[str, IndexedPod] = {}
        self.unchecked: dict[str, None] = {}
        """Names of pods whose labels have not been compared with the selector yet."""
        self._counts = dict.fromkeys(PodState, 0)

    def __getitem__(self, state: PodState) -> int:
        return self._counts[state]

    @property
    def active(self) -> int:
        """Number of pods that are neither terminated nor terminating."""
        return self._counts[PodState.NOT_READY] + self._counts[PodState.READY]

    def active_pods(self) -> list[Object]:
        return [member.pod for member in self.members.values() if member.state in ACTIVE]

    def available(self, now: datetime, *, min_ready: timedelta) -> tuple[int, datetime | None]:
        """Return how many pods are available, and when the next one will be.

        A pod is available when it has been ready for ``min_ready``.
        """
        if not min_ready:
            return self._counts[PodState.READY], None
        count, next_at = 0, None
        for member in self.members.values():
            if member.state is PodState.READY:
                at = ready_since(member.pod) + min_ready
                if at <= now:
                    count += 1
                elif next_at is None or at < next_at:
                    next_at = at
        return count, next_at

    def update(self, name: str, pod: Object, *, labels_changed: bool) -> bool:
        """Update a pod; return True if its state or labels changed."""
        before = self.members.get(name)
        state = pod_state(pod)
        self.members[name] = IndexedPod(pod, state)
        if labels_changed:
            self.unchecked[name] = None
        if before is not None:
            if before.state is state:
                return labels_changed
            self._counts[before.state] -= 1
        self._counts[state] += 1
        return True

    def remove(self, name: str) -> None:
        before = self.members.pop(name, None)
        self.unchecked.pop(name, None)
        if before is not None:
            self._counts[before.state] -= 1


NO_PODS = OwnedPods()
"""For a controller without pods; never modified."""


def pod_state(pod: Object) -> PodState:
    """Return the state of a pod."""
    status: Mapping[str, Any] = pod.get("status") or {}
    phase = status.get("phase")
    if phase == "Succeeded":
        return PodState.SUCCEEDED
    if phase == "Failed":
        return PodState.FAILED
    if pod["metadata"].get("deletionTimestamp"):
        return PodState.TERMINATING
    return PodState.READY if ready_condition(pod) is not None else PodState.NOT_READY


def ready_condition(pod: Object) -> Object | None:
    """Return the Ready condition of a pod if it is True, else None."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Ready":
            return condition if condition["status"] == "True" else None
    return None


def ready_since(pod: Object) -> datetime:
    """Return since when a ready pod has been ready."""
    since = (ready_condition(pod) or {}).get("lastTransitionTime")
    return datetime.fromisoformat(since or pod["metadata"]["creationTimestamp"])


def node_of(pod: Object) -> str:
    """Return the node that a pod is bound to; empty if it is not bound."""
    name: str = pod["spec"].get("nodeName", "")
    return name


class PodIndex:
    """Watches all pods and calls the handlers of the controllers."""

    def __init__(self, api: ApiServer, clock: VirtualClock) -> None:
        self.by_owner: dict[str, OwnedPods] = {}
        self.on_node: dict[str, dict[ObjectKey, Object]] = {}
        self.orphans: dict[str, dict[str, Object]] = {}
        """Namespace → name → pod without a controller."""
        self._pods: dict[ObjectKey, Object] = {}
        self._owner_handlers: dict[str, PodHandler] = {}
        self._orphan_handlers: list[Callable[[Object], None]] = []
        self._handlers: list[PodHandler] = []
        start_watch(api, clock, PODS, self._handle_event)

    def owned_by(self, owner: Object) -> OwnedPods:
        """Return the pods that an object controls."""
        return self.by_owner.get(owner["metadata"]["uid"], NO_PODS)

    def add_owner_handler(self, kind: str, handler: PodHandler) -> None:
        """Call ``handler`` when the state of a pod that a ``kind`` controls changes."""
        self._owner_handlers[kind] = handler

    def add_orphan_handler(self, handler: Callable[[Object], None]) -> None:
        """Call ``handler`` for pods without a controller, and when their labels change."""
        self._orphan_handlers.append(handler)

    def add_handler(self, handler: PodHandler) -> None:
        self._handlers.append(handler)

    def _handle_event(self, event: WatchEvent) -> None:
        key = object_key(event.object)
        old = self._pods.get(key)
        new = None if event.type is EventType.DELETED else event.object
        if old is not None and new is not None and _uid(old) != _uid(new):
            self._apply(key, old, None)
            old = None
        self._apply(key, old, new)

    def _apply(self, key: ObjectKey, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._pods.pop(key, None)
        else:
            self._pods[key] = new
        self._update_on_node(key, old, new)
        self._update_owner(key, old, new)
        for handler in self._handlers:
            handler(old, new)

    def _update_on_node(self, key: ObjectKey, old: Object | None, new: Object | None) -> None:
        before = "" if old is None else node_of(old)
        after = "" if new is None else node_of(new)
        if before and before != after:
            del self.on_node[before][key]
            if not self.on_node[before]:
                del self.on_node[before]
        if after and new is not None:
            self.on_node.setdefault(after, {})[key] = new

    def _update_owner(self, key: ObjectKey, old: Object | None, new: Object | None) -> None:
        before = None if old is None else controller_of(old)
        after = None if new is None else controller_of(new)
        if before is not after and old is not None and (before or {}).get("uid") != (after or {}).get("uid"):
            self._remove_owned(key, old, before)
        if new is None:
            return
        labels_changed = old is None or _labels(old) != _labels(new)
        if after is None:
            self.orphans.setdefault(key[0], {})[key[1]] = new
            if labels_changed or before is not None:
                for orphan_handler in self._orphan_handlers:
                    orphan_handler(new)
            return
        owned_pods = self.by_owner.get(after["uid"])
        if owned_pods is None:
            owned_pods = self.by_owner[after["uid"]] = OwnedPods()
        is_new_owner = old is None or before is None or before["uid"] != after["uid"]
        if owned_pods.update(key[1], new, labels_changed=labels_changed or is_new_owner):
            handler = self._owner_handlers.get(after["kind"])
            if handler is not None:
                handler(None if is_new_owner else old, new)

    def _remove_owned(self, key: ObjectKey, old: Object, before: Object | None) -> None:
        if before is None:
            self.orphans[key[0]].pop(key[1], None)
            return
        owned_pods = self.by_owner[before["uid"]]
        owned_pods.remove(key[1])
        if not owned_pods.members:
            del self.by_owner[before["uid"]]
        handler = self._owner_handlers.get(before["kind"])
        if handler is not None:
            handler(old, None)


def _uid(obj: Object) -> str:
    uid: str = obj["metadata"]["uid"]
    return uid


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}
