"""Events about the do-not-disrupt annotations of pods."""

from datetime import datetime
from typing import Final

from dovetail.controllers.event_reasons import (
    DO_NOT_DISRUPT_GRACE_PERIOD_ELAPSED,
    DO_NOT_DISRUPT_UNTIL,
    INVALID_DO_NOT_DISRUPT_ANNOTATION,
)
from dovetail.core.pod.eligibility import create_protection_event
from dovetail.model.kube.pod import Pod
from dovetail.ports.telemetry import EventRecorder

_EVENTS: Final = {
    event.reason: event
    for event in (
        INVALID_DO_NOT_DISRUPT_ANNOTATION,
        DO_NOT_DISRUPT_UNTIL,
        DO_NOT_DISRUPT_GRACE_PERIOD_ELAPSED,
    )
}


def publish_disruption_event(events: EventRecorder, pod: Pod, now: datetime) -> None:
    """Publish how a pod's do-not-disrupt annotation is interpreted, if it is unusual."""
    event = create_protection_event(pod, now)
    if event is not None:
        events.publish(pod, _EVENTS[event.reason], event.message)
