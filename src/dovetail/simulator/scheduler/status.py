"""PodScheduled conditions and Events, as kube-scheduler writes them."""

from typing import Final

from dovetail.ports.api_resources import PODS
from dovetail.simulator.apiserver.conditions import get_conditions, set_condition
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.timestamps import format_timestamp
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.component_events import ComponentEvents

_NAME: Final = "default-scheduler"


class StatusWriter:
    """Writes conditions of scheduling, and Events with ``keep_events``."""

    def __init__(self, api: ApiServer, clock: VirtualClock, *, keep_events: bool = True) -> None:
        self._api = api
        self._clock = clock
        self._events = ComponentEvents(api, clock, _NAME, keep_events=keep_events)

    def record_scheduled(self, pod: Object, node: str) -> None:
        meta = pod["metadata"]
        message = f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}"
        self._events.record(PODS, pod, "Scheduled", message, action="Binding")

    def record_unschedulable(self, pod: Object, message: str) -> None:
        """Set PodScheduled to False and record an Event."""
        now = format_timestamp(self._clock.now())
        new = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        status = {**pod["status"], "conditions": set_condition(get_conditions(pod), new, now=now)}
        pod = self._api.update(PODS, {**pod, "status": status}, subresource="status")
        self._events.record(PODS, pod, "FailedScheduling", message, is_warning=True, action="Scheduling")

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
        self._events.record(PODS, pod, "Preempted", message, action="Preempting")
