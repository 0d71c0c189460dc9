"""Pod statuses as a kubelet writes them, stage by stage."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.timestamps import timestamp

_OURS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
"""The conditions that a kubelet keeps; others are somebody else's."""


def starting(pod: Object, *, now: datetime, host_ip: str) -> dict[str, Any]:
    """Return the status of a pod whose node has taken it on."""
    moment = timestamp(now)
    first_steps = _plain_init(pod)
    waiting = {"waiting": {"reason": "PodInitializing" if first_steps else "ContainerCreating"}}
    verdicts = [
        ("PodReadyToStartContainers", False, ""),
        ("Initialized", not first_steps, "ContainersNotInitialized" if first_steps else ""),
        ("Ready", False, "ContainersNotReady"),
        ("ContainersReady", False, "ContainersNotReady"),
    ]
    status = {
        **pod["status"],
        "phase": "Pending",
        "conditions": _conditions(pod, verdicts, moment),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "startTime": moment,
        "containerStatuses": _containers(_main(pod), waiting, ready=False),
    }
    if pod["spec"].get("initContainers"):
        status["initContainerStatuses"] = _containers(_init(pod), waiting, ready=False)
    return status


def running(
    pod: Object, *, now: datetime, pod_ip: str, ready: bool, restarts: int = 0
) -> dict[str, Any]:
    """Return the status of a pod whose containers run."""
    moment = timestamp(now)
    state = {"running": {"startedAt": moment}}
    why = "" if ready else "ContainersNotReady"
    verdicts = [
        ("PodReadyToStartContainers", True, ""),
        ("Initialized", True, ""),
        ("Ready", ready, why),
        ("ContainersReady", ready, why),
    ]
    status = {
        **pod["status"],
        "phase": "Running",
        "conditions": _conditions(pod, verdicts, moment),
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "containerStatuses": _containers(_main(pod), state, ready=ready, restarts=restarts),
    }
    if pod["spec"].get("initContainers"):
        done = _terminated(0, "Completed", pod["status"].get("startTime", moment), moment)
        status["initContainerStatuses"] = [
            *_containers(_plain_init(pod), done, ready=True),
            *_containers(_sidecars(pod), state, ready=True),
        ]
    return status


def ended(pod: Object, *, now: datetime, exit_code: int) -> dict[str, Any]:
    """Return the status of a pod whose containers have ended for good."""
    moment = timestamp(now)
    failed = exit_code != 0
    started = pod["status"].get("startTime", moment)
    state = _terminated(exit_code, "Error" if failed else "Completed", started, moment)
    why = "PodFailed" if failed else "PodCompleted"
    verdicts = [
        ("PodReadyToStartContainers", False, ""),
        ("Initialized", True, why),
        ("Ready", False, why),
        ("ContainersReady", False, why),
    ]
    return {
        **pod["status"],
        "phase": "Failed" if failed else "Succeeded",
        "conditions": _conditions(pod, verdicts, moment),
        "containerStatuses": _containers(_main(pod), state, ready=False),
    }


def rejected(pod: Object, *, now: datetime, reason: str, message: str) -> dict[str, Any]:
    """Return the status of a pod that its node did not take on."""
    return {
        **pod["status"],
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": timestamp(now),
    }


def images(pod: Object) -> list[str]:
    """Return the images that a pod needs on its node, each once."""
    found = (one.get("image", "") for one in (*_init(pod), *_main(pod)))
    return list(dict.fromkeys(found))


def ready_delay(pod: Object) -> int:
    """Return the seconds that the readiness probes wait before they first ask."""
    probes = (one.get("readinessProbe") or {} for one in _main(pod))
    return max((int(one.get("initialDelaySeconds") or 0) for one in probes), default=0)


def stages(pod: Object) -> int:
    """Return how many containers start one after the other."""
    return len(_plain_init(pod)) + 1


def _main(pod: Object) -> list[Object]:
    return list(pod["spec"].get("containers") or ())


def _init(pod: Object) -> list[Object]:
    return list(pod["spec"].get("initContainers") or ())


def _sidecars(pod: Object) -> list[Object]:
    return [one for one in _init(pod) if one.get("restartPolicy") == "Always"]


def _plain_init(pod: Object) -> list[Object]:
    return [one for one in _init(pod) if one.get("restartPolicy") != "Always"]


def _terminated(code: int, reason: str, started: str, finished: str) -> dict[str, Any]:
    told = {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": finished}
    return {"terminated": told}


def _containers(
    containers: Iterable[Object], state: dict[str, Any], *, ready: bool, restarts: int = 0
) -> list[dict[str, Any]]:
    return [
        {
            "name": one["name"],
            "image": one.get("image", ""),
            "imageID": "",
            "ready": ready,
            "started": "running" in state,
            "restartCount": restarts,
            "state": state,
        }
        for one in containers
    ]


def _conditions(
    pod: Object, verdicts: list[tuple[str, bool, str]], now: str
) -> list[dict[str, Any]]:
    """Return the conditions after a change; one that stays keeps its time."""
    before = {one["type"]: one for one in pod["status"].get("conditions") or ()}
    told = []
    for kind, holds, why in verdicts:
        known = before.get(kind)
        status = "True" if holds else "False"
        since = known["lastTransitionTime"] if known and known["status"] == status else now
        new = {"type": kind, "status": status, "lastTransitionTime": since}
        told.append({**new, "reason": why} if why else new)
    return [*told, *(one for kind, one in before.items() if kind not in _OURS)]
