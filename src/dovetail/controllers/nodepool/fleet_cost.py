"""Fleet cost: reports how far the bill is above the lower bound for the pods."""

from datetime import timedelta
from typing import Final

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.runtime.manager import SINGLETON, SYNC_POLL, Controller, RequeueAfter
from dovetail.controllers.scheduling_snapshot import SchedulingSnapshots
from dovetail.core.cost.fleet_gap import measure_fleet
from dovetail.ports.metrics import FLEET_COST_OVER_BOUND, BoundLabels

INTERVAL: Final = RequeueAfter(timedelta(minutes=15))
"""The ratio changes with consolidation, which takes as long."""


class FleetCostController(ControllerBase):
    """Measures the whole cluster, at most once per ``INTERVAL``; outside the event loop."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._executor = context.executor
        self._snapshots = SchedulingSnapshots(context)
        self._measured: object = None
        """Nodes of the last measurement: equal ones give an equal result."""

    async def reconcile(self, _key: str) -> RequeueAfter:
        if not self._cache.has_synced():
            return SYNC_POLL
        nodes = self._cache.joined_nodes()
        if nodes is self._measured:
            return INTERVAL
        self._measured = nodes
        snapshot = self._snapshots.build(self._loop.now())

        gap = await self._executor.run(lambda: measure_fleet(snapshot))

        ratio = gap.ratio if gap.ratio is not None else float("nan")
        self._metrics.set(FLEET_COST_OVER_BOUND, ratio, BoundLabels(bound=gap.bound.kind))
        return INTERVAL


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    return Controller(
        name="metrics.fleetcost",
        reconciler=FleetCostController(context),
        initial_keys=(SINGLETON,),
        workers=1,
    )
