"""What was decided about pods, told to those who watch them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from dovetail.core.provisioning import why_not
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import Unplaced
from dovetail.ports.api_resources import PODS
from dovetail.ports.event_loop import Clock
from dovetail.ports.telemetry import Events, Log

_FAILED_DEDUPE: Final = timedelta(minutes=5)


class Verdicts:
    """Tells pods where they are expected, or why nowhere."""

    def __init__(self, *, clock: Clock, log: Log, events: Events) -> None:
        self._clock = clock
        self._log = log
        self._events = events
        self._logged: dict[str, tuple[frozenset[str], datetime]] = {}
        """Why pods got no place in the last pass → which, and since when the log has it."""

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
            if self._is_news(message, pods):
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
        self._logged = {message: self._logged[message] for message in alike}

    def _is_news(self, message: str, pods: Sequence[Pod]) -> bool:
        """Tell whether the log lacks it: pods that wait are looked at every few seconds."""
        now, uids = self._clock.now(), frozenset(pod.uid for pod in pods)
        known, since = self._logged.get(message, (frozenset[str](), now))
        if uids <= known and now < since + _FAILED_DEDUPE:
            return False
        self._logged[message] = (uids, now)
        return True


def some_of(pods: Sequence[Pod], most: int = 5) -> str:
    """Name the first few pods and count the others."""
    more = len(pods) - most
    return ", ".join(pod.key for pod in pods[:most]) + (f" and {more} other(s)" if more > 0 else "")
