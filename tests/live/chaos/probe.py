"""Probes: how long until a pod that is marked unschedulable gets a NodeClaim."""

from collections.abc import Callable
from itertools import count
from typing import Any

from dovetail.host.clock import SystemClock
from dovetail.model.labels import ASSIGNED_PODS_ANNOTATION
from tests.live.chaos.api import NODE_CLAIMS, PODS, Api, ApiFailure, wait_until
from tests.live.chaos.load import PROBE_LABEL

TIMEOUT = 90.0
"""Seconds; the result of a probe that got no NodeClaim."""
_INTERVAL = 0.05
_MARK = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "marked by a probe"}


class Prober:
    """Creates pods that only a new node of their own can run.

    kube-scheduler ignores them: the probe marks them itself, so that the time of a
    recovering kube-scheduler does not count.
    """

    def __init__(self, api: Api, *, while_waiting: Callable[[], None]) -> None:
        self._api = api
        self._while_waiting = while_waiting
        self._numbers = count()
        self._clock = SystemClock()

    def measure(self) -> float:
        """Return the seconds from now to the NodeClaim of a pod created now."""
        start = self._clock.seconds()
        pod = self._pod(f"probe-{next(self._numbers)}")
        name = pod["metadata"]["name"]
        created: list[str] = []

        def create() -> bool:
            try:
                created.append(self._api.create(PODS, pod)["metadata"]["uid"])
            except ApiFailure as error:
                if error.status == 409:  # An earlier attempt succeeded without an answer.
                    created.append(self._api.get(f"{PODS}/{name}")["metadata"]["uid"])
                else:
                    raise
            return True

        def mark() -> bool:
            self._api.patch(f"{PODS}/{name}/status", {"status": {"conditions": [_MARK]}}, strategic=True)
            return True

        def is_planned() -> bool:
            self._while_waiting()
            claims = self._api.items(NODE_CLAIMS)
            return any(
                created[0] in (claim["metadata"].get("annotations") or {}).get(ASSIGNED_PODS_ANNOTATION, "")
                for claim in claims
            )

        for step in (create, mark, is_planned):
            if wait_until("probe", step, seconds=TIMEOUT, interval=_INTERVAL) is None:
                self._delete(name)
                return TIMEOUT
        elapsed = self._clock.seconds() - start
        self._delete(name)
        return elapsed

    def _delete(self, name: str) -> None:
        def delete() -> bool:
            self._api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
            return True

        wait_until("delete", delete, seconds=30)

    def _pod(self, name: str) -> dict[str, Any]:
        resources = {"requests": {"cpu": "500m"}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {"probe": name}},
            "spec": {
                "schedulerName": "probes",
                "terminationGracePeriodSeconds": 0,
                "nodeSelector": {PROBE_LABEL: name},
                "tolerations": [{"key": PROBE_LABEL, "operator": "Exists"}],
                "containers": [{"name": "main", "image": "pause", "resources": resources}],
            },
        }
