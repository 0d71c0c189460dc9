"""Local state of a kubelet; it ends with the instance."""

from datetime import datetime

from dovetail.model.kube.resources import Resources
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.clock import ScheduledCall
from dovetail.simulator.instance import BootedInstance


class PodWorker:
    """State of one pod on a kubelet."""

    __slots__ = ("key", "next_step", "requests", "restarts", "started", "stops_at", "uid")

    def __init__(self, pod: Object, requests: Resources) -> None:
        meta = pod["metadata"]
        self.key = (meta["name"], meta["namespace"])
        self.uid: str = meta["uid"]
        self.requests = requests
        self.started = False
        self.restarts = 0
        self.next_step: ScheduledCall | None = None
        self.stops_at: datetime | None = None


class Kubelet:
    """Memory and disk of one kubelet."""

    def __init__(self, instance: BootedInstance, *, ready_at: datetime) -> None:
        self.instance = instance
        self.ready_at = ready_at
        self.unresponsive = False
        self.pod_workers: dict[str, PodWorker] = {}
        self.images: dict[str, datetime] = {}
        """Image → when it has been, or will be, pulled."""
        self.used: dict[str, int] = {}

    def reserve(self, worker: PodWorker, sign: int = 1) -> None:
        for name, amount in worker.requests.items():
            self.used[name] = self.used.get(name, 0) + sign * amount

    def insufficient_resource(self, requests: Resources) -> str | None:
        """Return the first resource that is insufficient; None if all fit."""
        allocatable = self.instance.allocatable
        for name in sorted(requests):
            request = requests[name]
            if request and request + self.used.get(name, 0) > allocatable.get(name, 0):
                return name
        return None
