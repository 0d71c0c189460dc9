"""ReplicaSet controller: keeps the desired number of pods."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from dovetail.ports.api_resources import PODS, REPLICA_SETS
from dovetail.ports.kube_errors import ApiError
from dovetail.simulator.apiserver.conditions import (
    get_condition,
    get_conditions,
    set_condition,
    without_condition,
)
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.store import ObjectKey, object_key
from dovetail.simulator.controllermanager.controller import WorkloadController
from dovetail.simulator.controllermanager.owner_references import controller_of, is_deleting
from dovetail.simulator.controllermanager.ownership.owned_index import OwnedIndex
from dovetail.simulator.controllermanager.pods.pod_index import (
    OwnedPods,
    PodState,
    node_of,
    ready_condition,
    ready_since,
)
from dovetail.simulator.controllermanager.pods.pod_template import pod_from

_RETRY_DELAY: Final = timedelta(seconds=5)
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_COMPLEMENT: Final = str.maketrans("0123456789abcdef", "fedcba9876543210")


class ReplicaSetController(WorkloadController):
    """Creates and deletes the pods of every ReplicaSet, and counts them."""

    resource = REPLICA_SETS

    def _start_watch(self) -> None:
        self._events = self._context.events_of("replicaset-controller")
        self._replica_sets = OwnedIndex(
            self._context, REPLICA_SETS, lambda event, _: self._handle_event(event)
        )

    def _sync(self, key: ObjectKey) -> None:
        replica_set = self._context.find(REPLICA_SETS, key)
        if replica_set is None:
            return
        self._ref_manager.claim_pods(replica_set)
        owned_pods = self._context.pods.owned_by(replica_set)
        error_message = "" if is_deleting(replica_set) else self._scale_pods(replica_set, owned_pods)
        self._update_status(replica_set, owned_pods, error_message)

    def _scale_pods(self, replica_set: Object, owned_pods: OwnedPods) -> str:
        """Create or delete pods; return the error that prevented it, or an empty string."""
        surplus = owned_pods.active - int(replica_set["spec"].get("replicas", 1))
        if surplus > 0:
            self._remove(replica_set, owned_pods, surplus)
        elif surplus < 0:
            return self._add(replica_set, -surplus)
        return ""

    def _add(self, replica_set: Object, count: int) -> str:
        wait = self._failure_delay.remaining(object_key(replica_set))
        if wait > timedelta():
            self._queue.add(object_key(replica_set), after=wait)
            failure = get_condition(replica_set, "ReplicaFailure")
            return "" if failure is None else str(failure.get("message", ""))
        template: Mapping[str, Any] = replica_set["spec"].get("template") or {}
        try:
            pod = pod_from(template, replica_set)
            for _ in range(count):
                self._context.api.create(PODS, pod)
        except ApiError as error:
            # The message has the name of the pod, so the status differs after every attempt.
            self._failure_delay.start(object_key(replica_set))
            self._queue.add(object_key(replica_set), after=_RETRY_DELAY)
            message = f"Error creating: {error.message}"
            self._events.record(REPLICA_SETS, replica_set, "FailedCreate", message, is_warning=True)
            return error.message
        return ""

    def _remove(self, replica_set: Object, owned_pods: OwnedPods, count: int) -> None:
        pods = owned_pods.active_pods()
        if count < len(pods):
            pods = list(sort_for_scale_down(pods, related_pods=self._related_pods(replica_set)))
        for pod in pods[:count]:
            self._context.delete(PODS, pod)

    def _related_pods(self, replica_set: Object) -> list[Object]:
        """Return the pods of all ReplicaSets of the same Deployment."""
        owner = controller_of(replica_set)
        siblings = [replica_set]
        if owner is not None:
            siblings = self._replica_sets.owned_by(owner["uid"])
        return [pod for sibling in siblings for pod in self._context.pods.owned_by(sibling).active_pods()]

    def _update_status(self, replica_set: Object, owned_pods: OwnedPods, error_message: str) -> None:
        min_ready = timedelta(seconds=replica_set["spec"].get("minReadySeconds") or 0)
        available, next_available = owned_pods.available(self._context.now(), min_ready=min_ready)
        if next_available is not None:
            self._queue.add(object_key(replica_set), after=next_available - self._context.now())
        counts = {
            "fullyLabeledReplicas": owned_pods.active,
            "readyReplicas": owned_pods[PodState.READY],
            "availableReplicas": available,
        }
        status: dict[str, Any] = {
            "replicas": owned_pods.active,
            **{name: count for name, count in counts.items() if count},
            "observedGeneration": replica_set["metadata"]["generation"],
        }
        conditions = without_condition(get_conditions(replica_set), "ReplicaFailure")
        if error_message:
            failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}
            failure["message"] = error_message
            conditions = set_condition(get_conditions(replica_set), failure, now=self._context.timestamp())
        if conditions:
            status["conditions"] = conditions
        self._context.update_status(REPLICA_SETS, replica_set, status)


def sort_for_scale_down(pods: Iterable[Object], *, related_pods: Iterable[Object]) -> Sequence[Object]:
    """Sort pods by the order in which a ReplicaSet deletes them.

    Unbound pods go before bound ones, pending before running, not ready before ready.
    Then a low deletion cost goes before a high one, and a node with many
    ``related_pods`` (same Deployment) before others. Of equal pods the younger goes first.
    """
    pods_per_node = Counter(node for related in related_pods if (node := node_of(related)))

    def sort_key(pod: Object) -> tuple[bool, int, bool, int, int, float, int, float, str]:
        ready = ready_condition(pod) is not None
        created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
        return (
            bool(node_of(pod)),
            _PHASES.get(get_field(pod, "status", "phase") or "", 2),
            ready,
            _deletion_cost(pod),
            -pods_per_node[node_of(pod)],
            -ready_since(pod).timestamp() if ready else 0.0,
            -_restarts(pod),
            -created.timestamp(),
            # Of pods created within one second, the later one has the greater UID.
            _reversed(pod["metadata"]["uid"]),
        )

    return sorted(pods, key=sort_key)


def _deletion_cost(pod: Object) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def _restarts(pod: Object) -> int:
    statuses = get_field(pod, "status", "containerStatuses") or ()
    return max((status.get("restartCount", 0) for status in statuses), default=0)


def _reversed(uid: str) -> str:
    return uid.translate(_COMPLEMENT)
