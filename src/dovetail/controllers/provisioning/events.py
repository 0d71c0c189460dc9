"""Events and log lines about pending pods: their node, or why there is none."""

from collections.abc import Sequence
from datetime import datetime

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.event_reasons import FAILED_SCHEDULING, NOMINATED
from dovetail.core.provisioning import format_names, format_unschedulable
from dovetail.core.scheduling.pods.pending import excludes_all_nodepools
from dovetail.model.karpenter.capacitybuffer import is_buffer_pod
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import Constraint, UnschedulablePod


class PodSchedulingEvents(ControllerBase):
    """Publishes where pods are expected, or why they cannot be scheduled."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._logged: dict[str, tuple[frozenset[str], datetime]] = {}
        """Message of the latest simulation → pod UIDs, and when it was logged."""
        self._is_without_nodepools = False
        """True if no NodePool was ready at the latest simulation."""

    def publish_nominated(self, pod: Pod, target: str) -> None:
        """Publish the target of a pod: ``node/…`` or ``nodeclaim/…``."""
        message = f"Pod should schedule on: {target}"
        self._events.publish(pod, NOMINATED, message, dedupe_key=(pod.uid,))

    def publish_unschedulable(self, results: Sequence[UnschedulablePod], *, has_nodepools: bool) -> None:
        """Publish an Event per pod; log one line for all pods with the same message.

        Without ``has_nodepools``, no NodePool is ready: only pods that no NodePool could
        serve get an Event. The others may be scheduled a second later.
        """
        pods_by_message: dict[str, list[Pod]] = {}
        for result in results:
            if _has_event(result, has_nodepools=has_nodepools):
                pods_by_message.setdefault(format_unschedulable(result), []).append(result.pod)
        for message, pods in pods_by_message.items():
            if self._should_log(message, pods):
                self._log.error(
                    "could not schedule pod", pod=format_names(pod.key for pod in pods), error=message
                )
            for pod in pods:
                self._events.publish(pod, FAILED_SCHEDULING, message)
        self._logged = {message: self._logged[message] for message in pods_by_message}
        if results and not has_nodepools and not self._is_without_nodepools:
            self._log.info("no dynamic nodepools found")
        self._is_without_nodepools = not has_nodepools

    def _should_log(self, message: str, pods: Sequence[Pod]) -> bool:
        """Return False for repetitions: pending pods are scheduled every few seconds."""
        now, uids = self._loop.now(), frozenset(pod.uid for pod in pods)
        logged_uids, logged_at = self._logged.get(message, (frozenset[str](), now))
        if uids <= logged_uids and now < logged_at + FAILED_SCHEDULING.dedupe_timeout:
            return False
        self._logged[message] = (uids, now)
        return True


def _has_event(result: UnschedulablePod, *, has_nodepools: bool) -> bool:
    if is_buffer_pod(result.pod) or excludes_all_nodepools(result.pod.spec):
        return False
    return has_nodepools or all(reason.constraint is not Constraint.NO_NODEPOOL for reason in result.reasons)
