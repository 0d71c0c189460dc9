"""What users read about scheduling: a pod's condition, and Events."""

from typing import Any, Final

from dovetail.ports.api_resources import EVENTS, PODS
from dovetail.ports.kube_errors import ApiError
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object, freeze
from dovetail.simulator.apiserver.timestamps import timestamp
from dovetail.simulator.clock import Engine

_NAME: Final = "default-scheduler"
_SOURCE: Final[Object] = freeze({"component": _NAME})
"""Kept once: there are three Events for each pod of a cluster that has just grown."""


class Telling:
    """Writes conditions and Events as kube-scheduler does."""

    def __init__(self, api: ApiServer, engine: Engine) -> None:
        self._api = api
        self._engine = engine

    def scheduled(self, pod: Object, node: str) -> None:
        meta = pod["metadata"]
        message = f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}"
        self._event(pod, "Scheduled", message, kind="Normal", action="Binding")

    def failed(self, pod: Object, message: str) -> None:
        """Say in the pod's status that no node was found."""
        new = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": timestamp(self._engine.now()),
        }
        conditions = list(pod["status"].get("conditions") or ())
        for old in conditions:
            if old["type"] == "PodScheduled" and old["status"] == "False":
                new["lastTransitionTime"] = old["lastTransitionTime"]
        others = [one for one in conditions if one["type"] != "PodScheduled"]
        status: dict[str, Any] = {**pod["status"], "conditions": [*others, new]}
        pod = self._api.update(PODS, {**pod, "status": status}, subresource="status")
        self._event(pod, "FailedScheduling", message, kind="Warning", action="Scheduling")

    def _event(self, pod: Object, reason: str, message: str, *, kind: str, action: str) -> None:
        meta = pod["metadata"]
        now = timestamp(self._engine.now())
        event = {
            # The revision makes it unlike the name of any other event.
            "metadata": {"name": f"{meta['name']}.{int(self._api.resource_version):016x}"},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            },
            "type": kind,
            "reason": reason,
            "action": action,
            "message": message,
            "source": _SOURCE,
            "reportingComponent": _NAME,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            self._api.create(EVENTS, event, meta["namespace"])
        except ApiError:
            return  # The namespace is on its way out: nobody will miss the event.
