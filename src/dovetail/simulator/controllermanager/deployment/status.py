"""Status of a Deployment: counts, Available and Progressing."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from dovetail.simulator.apiserver.conditions import (
    get_condition,
    get_conditions,
    set_condition,
    without_condition,
)
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.timestamps import format_timestamp
from dovetail.simulator.controllermanager.deployment.rollout import RolloutBounds

_COMPLETE: Final = "NewReplicaSetAvailable"
_DEADLINE_EXCEEDED: Final = "ProgressDeadlineExceeded"
_COUNTS: Final = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")


def sum_counts(new: Object | None, replica_sets: Sequence[Object]) -> dict[str, int]:
    """Sum the status of the ReplicaSets; zeros are omitted, as in Kubernetes."""

    def total(name: str) -> int:
        return sum(int(get_field(replica_set, "status", name) or 0) for replica_set in replica_sets)

    available = total("availableReplicas")
    desired = sum(int(replica_set["spec"].get("replicas", 1)) for replica_set in replica_sets)
    counts = {
        "replicas": total("replicas"),
        "updatedReplicas": int(get_field(new, "status", "replicas") or 0),
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, desired - available),
    }
    return {name: count for name, count in counts.items() if count}


def is_complete(deployment: Object, counts: Mapping[str, int]) -> bool:
    """Return True if all pods are updated and available, and no others exist."""
    replicas = int(deployment["spec"].get("replicas", 1))
    names = ("replicas", "updatedReplicas", "availableReplicas")
    return all(counts.get(name, 0) == replicas for name in names)


def encode_status(deployment: Object, counts: Mapping[str, int], conditions: Sequence[Any]) -> dict[str, Any]:
    """Return the whole status."""
    generation = deployment["metadata"]["generation"]
    return {"observedGeneration": generation, **counts, "conditions": conditions}


class Progress:
    """Conditions of one Deployment at one instant."""

    def __init__(self, deployment: Object, *, now: datetime) -> None:
        self._deployment = deployment
        self._now = now
        seconds = deployment["spec"].get("progressDeadlineSeconds")
        self._deadline = timedelta(seconds=600 if seconds is None else seconds)
        self.conditions: list[Any] = list(get_conditions(deployment))

    def record_created(self, name: str) -> None:
        self._set_progressing("True", "NewReplicaSetCreated", f'Created new replica set "{name}"')

    def record_found(self, name: str) -> None:
        """Record that the new ReplicaSet existed, unless Progressing is set."""
        if self._progressing_condition() is None:
            self._set_progressing("True", "FoundNewReplicaSet", f'Found new replica set "{name}"')

    def record_create_error(self, message: str) -> None:
        self._set_progressing("False", "ReplicaSetCreateError", message)

    def update_paused(self) -> None:
        """Pause or resume the progress deadline with the Deployment."""
        condition = self._progressing_condition() or {}
        if self._deployment["spec"].get("paused"):
            if condition.get("reason") not in ("DeploymentPaused", _DEADLINE_EXCEEDED):
                self._set_progressing("Unknown", "DeploymentPaused", "Deployment is paused")
        elif condition.get("reason") == "DeploymentPaused":
            self._set_progressing("Unknown", "DeploymentResumed", "Deployment is resumed")

    def update_available(self, counts: Mapping[str, int], bounds: RolloutBounds) -> None:
        """Set Available: at least the minimum number of pods is available."""
        enough = counts.get("availableReplicas", 0) >= bounds.min_available
        condition = {
            "type": "Available",
            "status": "True" if enough else "False",
            "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            "message": "Deployment has minimum availability."
            if enough
            else "Deployment does not have minimum availability.",
        }
        before = get_condition(self._deployment, "Available")
        if before is None or {**before, **condition} != before:
            self._write(condition)

    def update_progressing(self, counts: Mapping[str, int], name: str) -> timedelta | None:
        """Set Progressing; return the time left until the progress deadline.

        ``name`` is that of the new ReplicaSet, if it is known.
        """
        condition = self._progressing_condition()
        complete = condition is not None and condition["reason"] == _COMPLETE
        if complete and counts.get("replicas") == counts.get("updatedReplicas"):
            return None
        # Without replicas, a Deployment is complete before its new ReplicaSet is known; that requeues it.
        if name and is_complete(self._deployment, counts):
            self._set_progressing("True", _COMPLETE, f'ReplicaSet "{name}" has successfully progressed.')
        elif name and self._has_progressed(counts):
            self._set_progressing("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
        return self._check_deadline(name)

    def update_replica_failure(self, replica_sets: Sequence[Object]) -> None:
        """Copy a ReplicaFailure condition from the ReplicaSets."""
        failures = [
            failure
            for replica_set in replica_sets
            if (failure := get_condition(replica_set, "ReplicaFailure"))
        ]
        if failures:
            current_failure = get_condition(self._deployment, "ReplicaFailure") or {}
            failure = {name: failures[0][name] for name in ("type", "status", "reason", "message")}
            if {**current_failure, **failure} != current_failure:
                self._write(failure)
        else:
            self.conditions = without_condition(self.conditions, "ReplicaFailure")

    def _check_deadline(self, name: str) -> timedelta | None:
        condition = self._progressing_condition()
        if condition is None or condition["status"] != "True" or condition["reason"] == _COMPLETE:
            return None
        due = datetime.fromisoformat(condition["lastUpdateTime"]) + self._deadline
        if due > self._now:
            return due - self._now
        subject = f'ReplicaSet "{name}"' if name else f'Deployment "{self._deployment["metadata"]["name"]}"'
        self._set_progressing("False", _DEADLINE_EXCEEDED, f"{subject} has timed out progressing.")
        return None

    def _has_progressed(self, counts: Mapping[str, int]) -> bool:
        old = {name: get_field(self._deployment, "status", name) or 0 for name in _COUNTS}
        new = {name: counts.get(name, 0) for name in _COUNTS}
        fewer_old = new["replicas"] - new["updatedReplicas"] < (old["replicas"] - old["updatedReplicas"])
        more = ("updatedReplicas", "readyReplicas", "availableReplicas")
        return fewer_old or any(new[name] > old[name] for name in more)

    def _progressing_condition(self) -> Mapping[str, Any] | None:
        return next((condition for condition in self.conditions if condition["type"] == "Progressing"), None)

    def _set_progressing(self, status: str, reason: str, message: str) -> None:
        self._write({"type": "Progressing", "status": status, "reason": reason, "message": message})

    def _write(self, condition: Mapping[str, Any]) -> None:
        now = format_timestamp(self._now)
        self.conditions = set_condition(self.conditions, {**condition, "lastUpdateTime": now}, now=now)
