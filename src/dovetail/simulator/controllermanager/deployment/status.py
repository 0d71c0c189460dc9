"""What a Deployment says about itself: counts, Available and Progressing."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.timestamps import timestamp
from dovetail.simulator.controllermanager.conditions import (
    condition,
    conditions_of,
    replaced,
    without,
)
from dovetail.simulator.controllermanager.deployment.rollout import Room

_DONE: Final = "NewReplicaSetAvailable"
_LATE: Final = "ProgressDeadlineExceeded"
_COUNTS: Final = (
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
)


def counts_of(new: Object | None, replica_sets: Sequence[Object]) -> dict[str, int]:
    """Sum what the ReplicaSets say; zeros are left out, as Kubernetes does."""

    def total(name: str) -> int:
        return sum(int(look(one, "status", name) or 0) for one in replica_sets)

    available = total("availableReplicas")
    asked = sum(int(one["spec"].get("replicas", 1)) for one in replica_sets)
    counts = {
        "replicas": total("replicas"),
        "updatedReplicas": int(look(new, "status", "replicas") or 0),
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, asked - available),
    }
    return {name: count for name, count in counts.items() if count}


def is_complete(deployment: Object, counts: Mapping[str, int]) -> bool:
    """Tell whether all pods are of the newest template, available, and no others are left."""
    replicas = int(deployment["spec"].get("replicas", 1))
    names = ("replicas", "updatedReplicas", "availableReplicas")
    return all(counts.get(name, 0) == replicas for name in names)


def status_of(
    deployment: Object, counts: Mapping[str, int], conditions: Sequence[Any]
) -> dict[str, Any]:
    """Return the whole status."""
    generation = deployment["metadata"]["generation"]
    return {"observedGeneration": generation, **counts, "conditions": conditions}


class Progress:
    """Works out the conditions of one Deployment at one instant."""

    def __init__(self, deployment: Object, *, now: datetime) -> None:
        self._deployment = deployment
        self._now = now
        seconds = deployment["spec"].get("progressDeadlineSeconds")
        self._deadline = timedelta(seconds=600 if seconds is None else seconds)
        self.conditions: list[Any] = list(conditions_of(deployment))

    def created(self, name: str) -> None:
        self._progressing("True", "NewReplicaSetCreated", f"created ReplicaSet {name}")

    def found(self, name: str) -> None:
        """Note that the newest ReplicaSet was there, unless something was said already."""
        if self._said() is None:
            self._progressing("True", "FoundNewReplicaSet", f"found ReplicaSet {name}")

    def could_not_create(self, why: str) -> None:
        self._progressing("False", "ReplicaSetCreateError", why)

    def paused(self) -> None:
        """Stop, or restart, the clock of a Deployment that is paused, or was."""
        said = self._said() or {}
        if self._deployment["spec"].get("paused"):
            if said.get("reason") not in ("DeploymentPaused", _LATE):
                self._progressing("Unknown", "DeploymentPaused", "the rollout is paused")
        elif said.get("reason") == "DeploymentPaused":
            self._progressing("Unknown", "DeploymentResumed", "the rollout goes on")

    def available(self, counts: Mapping[str, int], room: Room) -> None:
        """Say whether enough pods are available."""
        enough = counts.get("availableReplicas", 0) >= room.least_available
        said = {
            "type": "Available",
            "status": "True" if enough else "False",
            "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            "message": f"{counts.get('availableReplicas', 0)} of {room.replicas} are available"
            if not enough
            else "enough pods are available",
        }
        before = condition(self._deployment, "Available")
        if before is None or {**before, **said} != before:
            self._write(said)

    def rolled(self, counts: Mapping[str, int], name: str) -> timedelta | None:
        """Say how the rollout goes; returns after how long it would be late."""
        said = self._said()
        settled = said is not None and said["reason"] == _DONE
        if settled and counts.get("replicas") == counts.get("updatedReplicas"):
            return None
        if is_complete(self._deployment, counts):
            self._progressing("True", _DONE, f"ReplicaSet {name} is rolled out")
        elif self._came_further(counts):
            self._progressing("True", "ReplicaSetUpdated", f"ReplicaSet {name} is rolling out")
        return self._lateness(name)

    def failing(self, replica_sets: Sequence[Object]) -> None:
        """Hand on what keeps a ReplicaSet from creating pods."""
        found = [trouble for one in replica_sets if (trouble := condition(one, "ReplicaFailure"))]
        if found:
            same = condition(self._deployment, "ReplicaFailure") or {}
            told = {name: found[0][name] for name in ("type", "status", "reason", "message")}
            if {**same, **told} != same:
                self._write(told)
        else:
            self.conditions = without(self.conditions, "ReplicaFailure")

    def _lateness(self, name: str) -> timedelta | None:
        said = self._said()
        if said is None or said["status"] != "True" or said["reason"] == _DONE:
            return None
        due = datetime.fromisoformat(said["lastUpdateTime"]) + self._deadline
        if due > self._now:
            return due - self._now
        self._progressing("False", _LATE, f"ReplicaSet {name} took too long to roll out")
        return None

    def _came_further(self, counts: Mapping[str, int]) -> bool:
        old = {name: look(self._deployment, "status", name) or 0 for name in _COUNTS}
        new = {name: counts.get(name, 0) for name in _COUNTS}
        fewer_old = new["replicas"] - new["updatedReplicas"] < (
            old["replicas"] - old["updatedReplicas"]
        )
        more = ("updatedReplicas", "readyReplicas", "availableReplicas")
        return fewer_old or any(new[name] > old[name] for name in more)

    def _said(self) -> Mapping[str, Any] | None:
        return next((one for one in self.conditions if one["type"] == "Progressing"), None)

    def _progressing(self, status: str, reason: str, message: str) -> None:
        self._write({"type": "Progressing", "status": status, "reason": reason, "message": message})

    def _write(self, said: Mapping[str, Any]) -> None:
        now = timestamp(self._now)
        self.conditions = replaced(self.conditions, {**said, "lastUpdateTime": now}, now=now)
