"""What was decided about pods, told to those who watch them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from dovetail.core.provisioning import why_not
from dovetail.model.plan import Unplaced
from dovetail.model.pods import Pod
from dovetail.ports.resources import PODS
from dovetail.ports.telemetry import Events, Log

_FAILED_DEDUPE: Final = timedelta(minutes=5)


class Verdicts:
    """Tells pods where they are expected, or why nowhere."""

    def __init__(self, *, log: Log, events: Events) -> None:
        self._log = log
        self._events = events

    def placed(self, pod: Pod, target: str) -> None:
        """Tell a pod where it should go: ``node/…`` or ``nodeclaim/…``."""
        self._events.publish(
            PODS,
            pod.name,
            namespace=pod.namespace,
            uid=pod.uid,
            reason="Nominated",
            message=f"Pod should schedule on: {target}",
            same=(pod.uid,),
        )

    def unplaced(self, unplaced: Sequence[Unplaced]) -> None:
        """Tell each pod why; the log has one line for all that fail alike."""
        alike: dict[str, list[Pod]] = {}
        for one in unplaced:
            alike.setdefault(why_not(one), []).append(one.pod)
        for message, pods in alike.items():
            self._log.error("could not schedule pod", pod=some_of(pods), error=message)
            for pod in pods:
                self._events.publish(
                    PODS,
                    pod.name,
                    namespace=pod.namespace,
                    uid=pod.uid,
                    reason="FailedScheduling",
                    message=message,
                    warning=True,
                    dedupe=_FAILED_DEDUPE,
                )


def some_of(pods: Sequence[Pod], most: int = 5) -> str:
    """Name the first few pods and count the others."""
    more = len(pods) - most
    return ", ".join(pod.key for pod in pods[:most]) + (f" and {more} other(s)" if more > 0 else "")
