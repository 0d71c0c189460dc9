"""What every controller of the simulated controller manager works with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_errors import Conflict, NotFound
from dovetail.simulator.apiserver.delete import DeleteOptions
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.store import key_of
from dovetail.simulator.apiserver.timestamps import timestamp
from dovetail.simulator.clock import Engine
from dovetail.simulator.controllermanager.pods.pod_index import PodCensus


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
