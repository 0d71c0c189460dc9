"""Resource quota controller: the status of ResourceQuotas."""

from dovetail.ports.api_resources import PODS, RESOURCE_QUOTAS, Resource
from dovetail.simulator.apiserver.admission.resource_quota import (
    Usage,
    add_usage,
    encode_status,
    find_charged_kinds,
    measure_usage,
    read_limits,
)
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.store import ObjectKey
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.context import ManagerContext
from dovetail.simulator.controllermanager.controller import Controller
from dovetail.simulator.workqueue import start_watch


class ResourceQuotaController(Controller):
    """Computes usage when a quota changes, pods end, or objects are deleted.

    Admission charges new objects; this controller subtracts ended ones.
    """

    resource = RESOURCE_QUOTAS

    def __init__(self, context: ManagerContext) -> None:
        super().__init__(context)
        self._quotas: set[ObjectKey] = set()
        self._watched: set[Resource] = {PODS}
        context.pods.add_handler(self._pod_changed)

    def _handle_event(self, event: WatchEvent) -> None:
        super()._handle_event(event)
        if event.type is not EventType.DELETED:
            meta = event.object["metadata"]
            self._quotas.add((meta["namespace"], meta["name"]))
            self._watch_charged(event.object)

    def _watch_charged(self, quota: Object) -> None:
        """Watch the kinds that a quota limits: most clusters have no quotas."""
        for resource in sorted(find_charged_kinds(read_limits(quota)) - self._watched, key=str):
            self._watched.add(resource)
            start_watch(self._context.api, self._context.clock, resource, self._object_changed)

    def _forget(self, key: ObjectKey) -> None:
        super()._forget(key)
        self._quotas.discard(key)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if not self._quotas or old is None:
            return
        if new is None or get_field(old, "status", "phase") != get_field(new, "status", "phase"):
            self._enqueue(old["metadata"]["namespace"])

    def _object_changed(self, event: WatchEvent) -> None:
        # A change may be another type of a Service. Admission has charged new objects.
        if event.type is not EventType.ADDED:
            self._enqueue(event.object["metadata"]["namespace"])

    def _enqueue(self, namespace: str) -> None:
        for key in sorted(self._quotas):
            if key[0] == namespace:
                self._queue.add(key)

    def _sync(self, key: ObjectKey) -> None:
        quota = self._context.find(RESOURCE_QUOTAS, key)
        if quota is None:
            return
        used: Usage = {}
        hard = read_limits(quota)
        for resource in find_charged_kinds(hard):
            for obj in self._context.api.list(resource, ListOptions(namespace=key[0])).items:
                used = add_usage(used, measure_usage(resource, obj))
        status = encode_status(quota, used, hard)
        if quota.get("status") != status:
            self._context.api.update(RESOURCE_QUOTAS, {**quota, "status": status}, subresource="status")
