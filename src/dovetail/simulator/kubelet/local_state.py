"""What a kubelet has in memory and on its disk: gone when its machine is."""

from datetime import datetime

from dovetail.model.kube.resources import Resources
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.clock import Appointment
from dovetail.simulator.instance import Machine


class Job:
    """One pod in a kubelet's care."""

    __slots__ = ("key", "next", "requests", "restarts", "started", "stops_at", "uid")

    def __init__(self, pod: Object, requests: Resources) -> None:
        meta = pod["metadata"]
        self.key = (meta["name"], meta["namespace"])
        self.uid: str = meta["uid"]
        self.requests = requests
        self.started = False
        self.restarts = 0
        self.next: Appointment | None = None
        self.stops_at: datetime | None = None


class Kubelet:
    """What one kubelet has in memory and on its disk."""

    def __init__(self, machine: Machine, *, ready_at: datetime) -> None:
        self.machine = machine
        self.ready_at = ready_at
        self.silent = False
        self.jobs: dict[str, Job] = {}
        self.images: dict[str, datetime] = {}
        """Image → when it has been, or will be, pulled."""
        self.used: dict[str, int] = {}

    def take(self, job: Job, sign: int = 1) -> None:
        for name, amount in job.requests.items():
            self.used[name] = self.used.get(name, 0) + sign * amount

    def short_of(self, requests: Resources) -> str | None:
        """Return the first resource of which too little is left."""
        room = self.machine.allocatable
        for name in sorted(requests):
            asked = requests[name]
            if asked and asked + self.used.get(name, 0) > room.get(name, 0):
                return name
        return None
