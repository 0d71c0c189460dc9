"""PodScheduled conditions and Events, as kube-scheduler writes them."""

from typing import Final

from dovetail.ports.api_resources import EVENTS, PODS
from dovetail.ports.kube_errors import ApiError
from dovetail.simulator.apiserver.conditions import get_conditions, set_condition
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object, freeze
from dovetail.simulator.apiserver.timestamps import format_timestamp
from dovetail.simulator.clock import VirtualClock

_NAME: Final = "default-scheduler"
_SOURCE: Final[Object] = freeze({"component": _NAME})
"""Shared: every new pod of a large cluster gets up to three Events."""


class StatusWriter:
    """Writes conditions of scheduling, and Events with ``keep_events``."""

    def __init__(self, api: ApiServer, clock: VirtualClock, *, keep_events: bool = True) -> None:
        self._api = api
        self._clock = clock
        self._keep_events = keep_events

    def record_scheduled(self, pod: Object, node: str) -> None:
        meta = pod["metadata"]
        message = f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}"
        self._event(pod, "Scheduled", message, kind="Normal", action="Binding")

    def record_unschedulable(self, pod: Object, message: str) -> None:
        """Set PodScheduled to False and record an Event."""
        now = format_timestamp(self._clock.now())
        new = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        status = {**pod["status"], "conditions": set_condition(get_conditions(pod), new, now=now)}
        pod = self._api.update(PODS, {**pod, "status": status}, subresource="status")
        self._event(pod, "FailedScheduling", message, kind="Warning", action="Scheduling")

    def record_preempted(self, pod: Object, message: str) -> None:
        """Set the condition DisruptionTarget of a victim and record an Event."""
        now = format_timestamp(self._clock.now())
        new = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": message,
        }
        status = {**pod["status"], "conditions": set_condition(get_conditions(pod), new, now=now)}
        pod = self._api.update(PODS, {**pod, "status": status}, subresource="status")
        self._event(pod, "Preempted", message, kind="Normal", action="Preempting")

    def _event(self, pod: Object, reason: str, message: str, *, kind: str, action: str) -> None:
        if not self._keep_events:
            return
        meta = pod["metadata"]
        now = format_timestamp(self._clock.now())
        event = {
            # The resource version makes the name unique.
            "metadata": {"name": f"{meta['name']}.{int(self._api.resource_version):016x}"},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            },
            "type": kind,
            "reason": reason,
            "action": action,
            "message": message,
            "source": _SOURCE,
            "reportingComponent": _NAME,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            self._api.create(EVENTS, event, meta["namespace"])
        except ApiError:
            return  # The namespace is terminating; the Event is lost.
