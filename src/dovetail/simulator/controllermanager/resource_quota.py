"""Resource quota controller: the status of ResourceQuotas."""

from dovetail.ports.api_resources import PERSISTENT_VOLUME_CLAIMS, RESOURCE_QUOTAS
from dovetail.simulator.apiserver.admission.resource_quota import (
    QUOTA_RESOURCES,
    Usage,
    add_usage,
    encode_status,
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
    """Computes usage when a quota changes, and when pods end or claims are deleted.

    Admission charges new objects; this controller subtracts ended ones.
    """

    resource = RESOURCE_QUOTAS

    def __init__(self, context: ManagerContext) -> None:
        super().__init__(context)
        self._quotas: set[ObjectKey] = set()
        context.pods.add_handler(self._pod_changed)
        start_watch(context.api, context.clock, PERSISTENT_VOLUME_CLAIMS, self._claim_changed)

    def _handle_event(self, event: WatchEvent) -> None:
        super()._handle_event(event)
        if event.type is not EventType.DELETED:
            meta = event.object["metadata"]
            self._quotas.add((meta["namespace"], meta["name"]))

    def _forget(self, key: ObjectKey) -> None:
        super()._forget(key)
        self._quotas.discard(key)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if not self._quotas or old is None:
            return
        if new is None or get_field(old, "status", "phase") != get_field(new, "status", "phase"):
            self._enqueue(old["metadata"]["namespace"])

    def _claim_changed(self, event: WatchEvent) -> None:
        if event.type is EventType.DELETED:
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
        for resource in QUOTA_RESOURCES:
            for obj in self._context.api.list(resource, ListOptions(namespace=key[0])).items:
                used = add_usage(used, measure_usage(resource, obj))
        status = encode_status(quota, used, read_limits(quota))
        if quota.get("status") != status:
            self._context.api.update(RESOURCE_QUOTAS, {**quota, "status": status}, subresource="status")
