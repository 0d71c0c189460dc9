"""Pod status as a kubelet writes it, for each stage of a pod."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.timestamps import format_timestamp

_KUBELET_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
"""Conditions that the kubelet manages; all others are kept."""


def starting(pod: Object, *, now: datetime, host_ip: str) -> dict[str, Any]:
    """Return the status of a pod that its node has admitted."""
    timestamp = format_timestamp(now)
    init_containers = _init_containers(pod)
    waiting = {"waiting": {"reason": "PodInitializing" if init_containers else "ContainerCreating"}}
    conditions = [
        ("PodReadyToStartContainers", False, ""),
        ("Initialized", not init_containers, "ContainersNotInitialized" if init_containers else ""),
        ("Ready", False, "ContainersNotReady"),
        ("ContainersReady", False, "ContainersNotReady"),
    ]
    status = {
        **pod["status"],
        "phase": "Pending",
        "conditions": _update_conditions(pod, conditions, timestamp),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "startTime": timestamp,
        "containerStatuses": _container_statuses(_containers_of(pod), waiting, ready=False),
    }
    if pod["spec"].get("initContainers"):
        status["initContainerStatuses"] = _container_statuses(_all_init_containers(pod), waiting, ready=False)
    return status


def running(pod: Object, *, now: datetime, pod_ip: str, ready: bool, restarts: int = 0) -> dict[str, Any]:
    """Return the status of a pod whose containers run."""
    timestamp = format_timestamp(now)
    state = {"running": {"startedAt": timestamp}}
    reason = "" if ready else "ContainersNotReady"
    conditions = [
        ("PodReadyToStartContainers", True, ""),
        ("Initialized", True, ""),
        ("Ready", ready, reason),
        ("ContainersReady", ready, reason),
    ]
    status = {
        **pod["status"],
        "phase": "Running",
        "conditions": _update_conditions(pod, conditions, timestamp),
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "containerStatuses": _container_statuses(_containers_of(pod), state, ready=ready, restarts=restarts),
    }
    if pod["spec"].get("initContainers"):
        completed = _terminated_state(0, "Completed", pod["status"].get("startTime", timestamp), timestamp)
        status["initContainerStatuses"] = [
            *_container_statuses(_init_containers(pod), completed, ready=True),
            *_container_statuses(_init_containers(pod, sidecars=True), state, ready=True),
        ]
    return status


def terminated(pod: Object, *, now: datetime, exit_code: int) -> dict[str, Any]:
    """Return the status of a pod whose containers have exited for good."""
    timestamp = format_timestamp(now)
    failed = exit_code != 0
    started = pod["status"].get("startTime", timestamp)
    state = _terminated_state(exit_code, "Error" if failed else "Completed", started, timestamp)
    reason = "PodFailed" if failed else "PodCompleted"
    conditions = [
        ("PodReadyToStartContainers", False, ""),
        ("Initialized", True, reason),
        ("Ready", False, reason),
        ("ContainersReady", False, reason),
    ]
    return {
        **pod["status"],
        "phase": "Failed" if failed else "Succeeded",
        "conditions": _update_conditions(pod, conditions, timestamp),
        "containerStatuses": _container_statuses(_containers_of(pod), state, ready=False),
    }


def rejected(pod: Object, *, now: datetime, reason: str, message: str) -> dict[str, Any]:
    """Return the status of a pod that its node rejected."""
    return {
        **pod["status"],
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": format_timestamp(now),
    }


def is_ready(pod: Object) -> bool:
    """Return True if the Ready condition of a pod is True."""
    conditions = pod["status"].get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def image_names(pod: Object) -> list[str]:
    """Return the images that a pod needs, each once."""
    names = (container.get("image", "") for container in (*_all_init_containers(pod), *_containers_of(pod)))
    return list(dict.fromkeys(names))


def readiness_delay(pod: Object) -> int:
    """Return the largest initial delay of the readiness probes, in seconds."""
    probes = (container.get("readinessProbe") or {} for container in _containers_of(pod))
    return max((int(probe.get("initialDelaySeconds") or 0) for probe in probes), default=0)


def sequential_starts(pod: Object) -> int:
    """Return how many container starts follow each other."""
    return len(_init_containers(pod)) + 1


def _containers_of(pod: Object) -> list[Object]:
    return list(pod["spec"].get("containers") or ())


def _all_init_containers(pod: Object) -> list[Object]:
    return list(pod["spec"].get("initContainers") or ())


def _init_containers(pod: Object, *, sidecars: bool = False) -> list[Object]:
    """Return the init containers that are, or are not, sidecars."""
    containers = _all_init_containers(pod)
    return [item for item in containers if (item.get("restartPolicy") == "Always") is sidecars]


def _terminated_state(code: int, reason: str, started: str, finished: str) -> dict[str, Any]:
    state = {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": finished}
    return {"terminated": state}


def _container_statuses(
    containers: Iterable[Object], state: dict[str, Any], *, ready: bool, restarts: int = 0
) -> list[dict[str, Any]]:
    return [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": "",
            "ready": ready,
            "started": "running" in state,
            "restartCount": restarts,
            "state": state,
        }
        for container in containers
    ]


def _update_conditions(
    pod: Object, conditions: list[tuple[str, bool, str]], now: str
) -> list[dict[str, Any]]:
    """Return the updated conditions; an unchanged status keeps its transition time."""
    before = {condition["type"]: condition for condition in pod["status"].get("conditions") or ()}
    written = []
    for kind, is_true, reason in conditions:
        previous = before.get(kind)
        status = "True" if is_true else "False"
        since = previous["lastTransitionTime"] if previous and previous["status"] == status else now
        new = {"type": kind, "status": status, "lastTransitionTime": since}
        written.append({**new, "reason": reason} if reason else new)
    return [*written, *(condition for kind, condition in before.items() if kind not in _KUBELET_CONDITIONS)]
