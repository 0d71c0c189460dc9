"""All pods, counted by whoever controls them and listed by the node they are on.

The counts follow from watch events alone, so that a change of one pod costs the
same however many others its owner has. A second census would come to the same.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple

from dovetail.ports.api_resources import PODS
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.index import Key
from dovetail.simulator.apiserver.storage.store import key_of
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import Engine
from dovetail.simulator.controllermanager.owner_references import controller_of
from dovetail.simulator.workqueue import follow


class Standing(Enum):
    """What a pod counts as for the workload that it belongs to."""

    WAITING = "waiting"
    READY = "ready"
    LEAVING = "leaving"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


ACTIVE = frozenset({Standing.WAITING, Standing.READY})

Change = Callable[[Object | None, Object | None], None]
"""Told of a pod before and after a change; None where there was, or is, none."""


class Member(NamedTuple):
    """A pod and what it counts as."""

    pod: Object
    standing: Standing


class Crew:
    """The pods that one workload controls, by name."""

    __slots__ = ("_counts", "members", "unchecked")

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.unchecked: dict[str, None] = {}
        """Names of pods whose labels nobody has compared with the selector yet."""
        self._counts = dict.fromkeys(Standing, 0)

    def __getitem__(self, standing: Standing) -> int:
        return self._counts[standing]

    @property
    def active(self) -> int:
        """How many neither finished nor are being deleted."""
        return self._counts[Standing.WAITING] + self._counts[Standing.READY]

    def active_pods(self) -> list[Object]:
        return [one.pod for one in self.members.values() if one.standing in ACTIVE]

    def available(self, now: datetime, *, settle: timedelta) -> tuple[int, datetime | None]:
        """Count who has been ready for ``settle``, and tell when the next one will have been."""
        if not settle:
            return self._counts[Standing.READY], None
        count, soonest = 0, None
        for one in self.members.values():
            if one.standing is Standing.READY:
                at = ready_since(one.pod) + settle
                if at <= now:
                    count += 1
                elif soonest is None or at < soonest:
                    soonest = at
        return count, soonest

    def put(self, name: str, pod: Object, *, relabelled: bool) -> bool:
        """Take a pod's new state over; tells whether it counts as something else now."""
        before = self.members.get(name)
        standing = standing_of(pod)
        self.members[name] = Member(pod, standing)
        if relabelled:
            self.unchecked[name] = None
        if before is not None:
            if before.standing is standing:
                return relabelled
            self._counts[before.standing] -= 1
        self._counts[standing] += 1
        return True

    def drop(self, name: str) -> None:
        before = self.members.pop(name, None)
        self.unchecked.pop(name, None)
        if before is not None:
            self._counts[before.standing] -= 1


NOBODY = Crew()
"""The crew of a workload without pods; never added to."""


def standing_of(pod: Object) -> Standing:
    """Tell what a pod counts as."""
    status: Mapping[str, Any] = pod.get("status") or {}
    phase = status.get("phase")
    if phase == "Succeeded":
        return Standing.SUCCEEDED
    if phase == "Failed":
        return Standing.FAILED
    if pod["metadata"].get("deletionTimestamp"):
        return Standing.LEAVING
    return Standing.READY if ready_condition(pod) is not None else Standing.WAITING


def ready_condition(pod: Object) -> Object | None:
    """Return the condition that says that a pod is ready; None when it is not."""
    for one in (pod.get("status") or {}).get("conditions") or ():
        if one["type"] == "Ready":
            return one if one["status"] == "True" else None
    return None


def ready_since(pod: Object) -> datetime:
    """Tell since when a ready pod has been ready."""
    since = (ready_condition(pod) or {}).get("lastTransitionTime")
    return datetime.fromisoformat(since or pod["metadata"]["creationTimestamp"])


def node_of(pod: Object) -> str:
    """Return the node that a pod is bound to; empty when it is not."""
    name: str = pod["spec"].get("nodeName", "")
    return name


class PodCensus:
    """Follows all pods and tells the controllers of theirs."""

    def __init__(self, api: ApiServer, engine: Engine) -> None:
        self.crews: dict[str, Crew] = {}
        self.on_node: dict[str, dict[Key, Object]] = {}
        self.orphans: dict[str, dict[str, Object]] = {}
        """Pods that nobody controls, by namespace and name."""
        self._pods: dict[Key, Object] = {}
        self._keepers: dict[str, Change] = {}
        self._adopters: list[Callable[[Object], None]] = []
        self._listeners: list[Change] = []
        follow(api, engine, PODS, self._heard)

    def crew(self, owner: Object) -> Crew:
        """Return the pods that an object controls."""
        return self.crews.get(owner["metadata"]["uid"], NOBODY)

    def tell_of_pods(self, kind: str, change: Change) -> None:
        """Have ``change`` told when a pod that a ``kind`` controls counts as something else."""
        self._keepers[kind] = change

    def tell_of_orphans(self, hear: Callable[[Object], None]) -> None:
        """Have ``hear`` told of pods that nobody controls, and when their labels change."""
        self._adopters.append(hear)

    def tell_of_everything(self, change: Change) -> None:
        self._listeners.append(change)

    def _heard(self, event: WatchEvent) -> None:
        key = key_of(event.object)
        old = self._pods.get(key)
        new = None if event.type is EventType.DELETED else event.object
        if old is not None and new is not None and _uid(old) != _uid(new):
            self._changed(key, old, None)
            old = None
        self._changed(key, old, new)

    def _changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._pods.pop(key, None)
        else:
            self._pods[key] = new
        self._move(key, old, new)
        self._count(key, old, new)
        for listener in self._listeners:
            listener(old, new)

    def _move(self, key: Key, old: Object | None, new: Object | None) -> None:
        before = "" if old is None else node_of(old)
        after = "" if new is None else node_of(new)
        if before and before != after:
            del self.on_node[before][key]
            if not self.on_node[before]:
                del self.on_node[before]
        if after and new is not None:
            self.on_node.setdefault(after, {})[key] = new

    def _count(self, key: Key, old: Object | None, new: Object | None) -> None:
        before = None if old is None else controller_of(old)
        after = None if new is None else controller_of(new)
        if old is not None and (before or {}).get("uid") != (after or {}).get("uid"):
            self._left(key, old, before)
        if new is None:
            return
        relabelled = old is None or _labels(old) != _labels(new)
        if after is None:
            self.orphans.setdefault(key[0], {})[key[1]] = new
            if relabelled or before is not None:
                for hear in self._adopters:
                    hear(new)
            return
        crew = self.crews.get(after["uid"])
        if crew is None:
            crew = self.crews[after["uid"]] = Crew()
        joined = old is None or before is None or before["uid"] != after["uid"]
        if crew.put(key[1], new, relabelled=relabelled or joined):
            keeper = self._keepers.get(after["kind"])
            if keeper is not None:
                keeper(None if joined else old, new)

    def _left(self, key: Key, old: Object, before: Object | None) -> None:
        if before is None:
            self.orphans[key[0]].pop(key[1], None)
            return
        crew = self.crews[before["uid"]]
        crew.drop(key[1])
        if not crew.members:
            del self.crews[before["uid"]]
        keeper = self._keepers.get(before["kind"])
        if keeper is not None:
            keeper(old, None)


def _uid(obj: Object) -> str:
    uid: str = obj["metadata"]["uid"]
    return uid


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}
