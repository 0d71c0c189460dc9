"""Recorder: counts and timestamps of pods, nodes and NodeClaims in a scenario."""

from datetime import datetime

import msgspec

from dovetail.model.karpenter.condition_types import DRIFTED, INITIALIZED
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS
from dovetail.simulator.apiserver.conditions import is_condition_true
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.workqueue import start_watch


class PodStart(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that became Ready, and when."""

    at: datetime
    pod: str
    created: datetime
    node: str


class ScenarioRecorder:
    """Watches pods, nodes and NodeClaims.

    Its times are exact; timestamps in the API have a resolution of a second.
    """

    def __init__(self, api: ApiServer, clock: VirtualClock) -> None:
        self._clock = clock
        self._states: dict[str, str] = {}
        self._created: dict[str, datetime] = {}
        self.running = 0
        """Pods that are Running and Ready, without those of DaemonSets."""
        self.unsettled = 0
        """Pods that are pending, not ready or terminating."""
        self.last_start: PodStart | None = None
        self.node_ready: dict[str, datetime] = {}
        """Node → when it was first Ready."""
        self.claim_created: dict[str, datetime] = {}
        self.claim_initialized: dict[str, datetime] = {}
        self.drifted: set[str] = set()
        """NodeClaims with the condition Drifted."""
        self.provider_of: dict[str, str] = {}
        """Node → provider ID."""
        start_watch(api, clock, PODS, self._handle_pod)
        start_watch(api, clock, NODES, self._handle_node)
        start_watch(api, clock, NODE_CLAIMS, self._handle_claim)

    def _handle_pod(self, event: WatchEvent) -> None:
        pod = event.object
        uid = pod["metadata"]["uid"]
        now = self._clock.now()
        if event.type is EventType.DELETED:
            self._set_state(uid, None)
            self._created.pop(uid, None)
            return
        if _is_bound_to_node(pod):
            return
        self._created.setdefault(uid, now)
        state = _state(pod)
        if state == "running" and self._states.get(uid) != "running":
            self.last_start = PodStart(
                at=now,
                pod=f"{pod['metadata']['namespace']}/{pod['metadata']['name']}",
                created=self._created[uid],
                node=get_field(pod, "spec", "nodeName") or "",
            )
        self._set_state(uid, state)

    def _set_state(self, uid: str, state: str | None) -> None:
        before = self._states.pop(uid, None)
        if state is not None:
            self._states[uid] = state
        self.running += (state == "running") - (before == "running")
        self.unsettled += (state == "unsettled") - (before == "unsettled")

    def _handle_node(self, event: WatchEvent) -> None:
        node = event.object
        name = node["metadata"]["name"]
        if event.type is EventType.DELETED:
            self.node_ready.pop(name, None)
            self.provider_of.pop(name, None)
            return
        self.provider_of[name] = get_field(node, "spec", "providerID") or ""
        if is_condition_true(node, "Ready"):
            self.node_ready.setdefault(name, self._clock.now())

    def _handle_claim(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        if event.type is EventType.DELETED:
            self.claim_created.pop(name, None)
            self.claim_initialized.pop(name, None)
            self.drifted.discard(name)
            return
        self.claim_created.setdefault(name, self._clock.now())
        if is_condition_true(event.object, INITIALIZED):
            self.claim_initialized.setdefault(name, self._clock.now())
        if is_condition_true(event.object, DRIFTED):
            self.drifted.add(name)
        else:
            self.drifted.discard(name)


def _is_bound_to_node(pod: Object) -> bool:
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner["kind"] in ("DaemonSet", "Node"):
            return True
    return False


def _state(pod: Object) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "unsettled"
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        return "finished"
    ready = phase == "Running" and is_condition_true(pod, "Ready")
    return "running" if ready else "unsettled"
