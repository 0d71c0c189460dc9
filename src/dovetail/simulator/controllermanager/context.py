"""Dependencies of the controllers in the simulated controller manager."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from dovetail.ports.api_resources import PODS, Resource
from dovetail.ports.kube_errors import Conflict, NotFound
from dovetail.simulator.apiserver.conditions import get_conditions, set_condition
from dovetail.simulator.apiserver.interface import find_object
from dovetail.simulator.apiserver.options import DeleteOptions
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.store import ObjectKey, object_key
from dovetail.simulator.apiserver.timestamps import format_timestamp
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.component_events import ComponentEvents
from dovetail.simulator.controllermanager.pods.pod_index import PodIndex


class LeaseHeartbeats(Protocol):
    """Kubelets in this process: whether they renew their Leases need not be read from those."""

    on_stop: Callable[[str], None]
    """Called with a node whose Lease is not renewed any more."""

    def is_renewing(self, node: str) -> bool: ...


@dataclass(frozen=True)
class ManagerContext:
    """API server, clock, the shared pod index, and a lookup of instances."""

    api: ApiServer
    clock: VirtualClock
    pods: PodIndex
    instance_exists: Callable[[str], bool | None] | None = None
    """Return True if the instance with a provider ID exists; None if unknown."""
    heartbeats: LeaseHeartbeats | None = None
    keep_events: bool = True
    """False: nothing reads the Events of controllers, so they record none."""

    def events_of(self, component: str) -> ComponentEvents:
        """Return the recorder of a controller's Events."""
        return ComponentEvents(self.api, self.clock, component, keep_events=self.keep_events)

    def now(self) -> datetime:
        return self.clock.now()

    def timestamp(self) -> str:
        return format_timestamp(self.clock.now())

    def find(self, resource: Resource, key: ObjectKey) -> Object | None:
        """Return the current object; None if it does not exist."""
        return find_object(self.api, resource, key[1], key[0])

    def delete(self, resource: Resource, obj: Object, *, grace_seconds: int | None = None) -> None:
        """Delete exactly this object; ignore that it is gone or was replaced."""
        namespace, name = object_key(obj)
        options = DeleteOptions(uid=obj["metadata"]["uid"], grace_period_seconds=grace_seconds)
        try:
            self.api.delete(resource, name, namespace, options=options)
        except (NotFound, Conflict):
            return

    def update_status(self, resource: Resource, obj: Object, status: Mapping[str, Any]) -> None:
        """Update an object's status, unless it is equal already."""
        if (obj.get("status") or {}) != status:
            self.api.update(resource, {**obj, "status": status}, subresource="status")

    def mark_disruption_target(self, pod: Object, reason: str, message: str, **status: Any) -> None:
        """Set a pod's condition DisruptionTarget, and other fields of its status."""
        target = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
        conditions = set_condition(get_conditions(pod), target, now=self.timestamp())
        self.update_status(PODS, pod, {**pod["status"], **status, "conditions": conditions})
