"""What every controller of the simulated controller manager works with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dovetail.ports.kubeerrors import Conflict, NotFound
from dovetail.ports.resources import Resource
from dovetail.sim.apiserver.deleting import DeleteOptions
from dovetail.sim.apiserver.frozen import Object
from dovetail.sim.apiserver.server import ApiServer
from dovetail.sim.apiserver.store import key_of
from dovetail.sim.apiserver.times import timestamp
from dovetail.sim.engine import Engine
from dovetail.sim.workloads.census import PodCensus


@dataclass(frozen=True)
class Site:
    """The API server, the time, the pods counted once for all, and the cloud's word."""

    api: ApiServer
    engine: Engine
    pods: PodCensus
    instance_exists: Callable[[str], bool | None] | None = None
    """Whether the instance with a provider id is still there; None: cannot be told now."""

    def now(self) -> datetime:
        return self.engine.now()

    def timestamp(self) -> str:
        return timestamp(self.engine.now())

    def delete(self, resource: Resource, obj: Object, *, grace_seconds: int | None = None) -> None:
        """Delete this very object; gone already, or another in its place, is as good."""
        namespace, name = key_of(obj)
        options = DeleteOptions(uid=obj["metadata"]["uid"], grace_seconds=grace_seconds)
        try:
            self.api.delete(resource, name, namespace, options=options)
        except (NotFound, Conflict):
            return

    def write_status(self, resource: Resource, obj: Object, status: Mapping[str, Any]) -> None:
        """Write an object's status unless it says so already."""
        if (obj.get("status") or {}) != status:
            self.api.update(resource, {**obj, "status": status}, subresource="status")
