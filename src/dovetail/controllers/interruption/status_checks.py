"""Status checks: deletes NodeClaims of instances that fail EC2's status checks.

Instances with a scheduled stop, reboot or retirement are drained, too.
"""

from datetime import timedelta
from typing import Final

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.interruption.handler import InterruptionHandler
from dovetail.controllers.runtime.manager import SINGLETON, Controller, RequeueAfter
from dovetail.ports.cloudprovider import InstanceStatusProvider, InterruptionKind, UnhealthyInstance
from dovetail.ports.metrics import INTERRUPTION_INSTANCE_STATUS_UNHEALTHY, CategoryLabels

_INTERVAL: Final = RequeueAfter(timedelta(minutes=1))
_MIN_FAILURE_TIME: Final = timedelta(seconds=120)
"""Status checks fail for a moment while an instance boots."""


class StatusCheckController(ControllerBase):
    """Polls the status checks of all instances; it needs no queue."""

    def __init__(self, context: ControllerContext, instance_status: InstanceStatusProvider) -> None:
        super().__init__(context)
        self._instance_status = instance_status
        self._handler = InterruptionHandler(context)
        self._counted: frozenset[tuple[str, InterruptionKind]] = frozenset()

    async def reconcile(self, _: object) -> RequeueAfter:
        # Observe.
        instances = await self._instance_status.list_unhealthy()

        # Decide.
        unhealthy = [instance for instance in instances if self._is_persistent(instance)]

        # Report and act.
        self._count(unhealthy)
        for instance in unhealthy:
            for claim in self._cache.claims_of(instance.instance_id):
                if claim.node_class.is_supported and not claim.deleting:
                    await self._handler.handle(claim, instance.kind)
        return _INTERVAL

    def _is_persistent(self, instance: UnhealthyInstance) -> bool:
        if instance.kind is InterruptionKind.EVENT_STATUS:
            return True
        return instance.since is not None and self._loop.now() - instance.since >= _MIN_FAILURE_TIME

    def _count(self, unhealthy: list[UnhealthyInstance]) -> None:
        """Count each failure once, until the instance is healthy again."""
        failures = frozenset(
            (instance.instance_id, instance.kind)
            for instance in unhealthy
            if self._cache.claims_of(instance.instance_id)
        )
        for _, kind in sorted(failures - self._counted):
            self._metrics.inc(INTERRUPTION_INSTANCE_STATUS_UNHEALTHY, CategoryLabels(category=kind))
        self._counted = failures


def controller(context: ControllerContext) -> Controller | None:
    """Return the registration, None if the cloud provider has no status checks."""
    if context.instance_status is None:
        return None
    reconciler = StatusCheckController(context, context.instance_status)
    return Controller(name="interruption.status", reconciler=reconciler, initial_keys=[SINGLETON], workers=1)
