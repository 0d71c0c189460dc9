"""What happened when, and how many there are now, kept up with every change."""

from datetime import datetime
from typing import Any

import msgspec

from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import Engine
from dovetail.simulator.workqueue import follow


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that began to run."""

    at: datetime
    pod: str
    made: datetime
    node: str


class Chronicle:
    """Follows pods, nodes and claims; times are exact, unlike those on the wire."""

    def __init__(self, api: ApiServer, engine: Engine) -> None:
        self._engine = engine
        self._states: dict[str, str] = {}
        self._made: dict[str, datetime] = {}
        self.running = 0
        """Pods that run and are ready, DaemonSets' aside."""
        self.unsettled = 0
        """Pods that wait for something, or are on their way out."""
        self.last_start: Started | None = None
        self.node_ready: dict[str, datetime] = {}
        """Node → when it was first ready."""
        self.claim_made: dict[str, datetime] = {}
        self.claim_initialized: dict[str, datetime] = {}
        self.drifted: set[str] = set()
        """Claims whose machines are no longer what their pool or class asks for."""
        self.provider_of: dict[str, str] = {}
        """Node → provider id."""
        follow(api, engine, PODS, self._pod)
        follow(api, engine, NODES, self._node)
        follow(api, engine, NODE_CLAIMS, self._claim)

    def _pod(self, event: WatchEvent) -> None:
        pod = event.object
        uid = pod["metadata"]["uid"]
        now = self._engine.now()
        if event.type is EventType.DELETED:
            self._move(uid, None)
            self._made.pop(uid, None)
            return
        if _follows_its_node(pod):
            return
        self._made.setdefault(uid, now)
        state = _state(pod)
        if state == "running" and self._states.get(uid) != "running":
            self.last_start = Started(
                at=now,
                pod=f"{pod['metadata']['namespace']}/{pod['metadata']['name']}",
                made=self._made[uid],
                node=look(pod, "spec", "nodeName") or "",
            )
        self._move(uid, state)

    def _move(self, uid: str, state: str | None) -> None:
        before = self._states.pop(uid, None)
        if state is not None:
            self._states[uid] = state
        self.running += (state == "running") - (before == "running")
        self.unsettled += (state == "unsettled") - (before == "unsettled")

    def _node(self, event: WatchEvent) -> None:
        node = event.object
        name = node["metadata"]["name"]
        if event.type is EventType.DELETED:
            self.node_ready.pop(name, None)
            self.provider_of.pop(name, None)
            return
        self.provider_of[name] = look(node, "spec", "providerID") or ""
        if _condition(node, "Ready") == "True":
            self.node_ready.setdefault(name, self._engine.now())

    def _claim(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        if event.type is EventType.DELETED:
            self.claim_made.pop(name, None)
            self.claim_initialized.pop(name, None)
            self.drifted.discard(name)
            return
        self.claim_made.setdefault(name, self._engine.now())
        if _condition(event.object, "Initialized") == "True":
            self.claim_initialized.setdefault(name, self._engine.now())
        if _condition(event.object, "Drifted") == "True":
            self.drifted.add(name)
        else:
            self.drifted.discard(name)


def _follows_its_node(pod: Object) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner["kind"] in ("DaemonSet", "Node") for owner in owners)


def _state(pod: Object) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "unsettled"
    phase = look(pod, "status", "phase")
    if phase in ("Succeeded", "Failed"):
        return "over"
    ready = phase == "Running" and _condition(pod, "Ready") == "True"
    return "running" if ready else "unsettled"


def _condition(obj: Object, kind: str) -> Any:
    for one in look(obj, "status", "conditions") or ():
        if one["type"] == kind:
            return one["status"]
    return None
