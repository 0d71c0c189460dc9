"""Scheduling snapshots: pending pods, nodes and NodePools as input of the solver."""

from collections.abc import Iterator
from datetime import datetime

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.core.provisioning import can_provision, is_provisionable
from dovetail.model.kube.pod import Pod
from dovetail.model.snapshot import ClusterSnapshot
from dovetail.state.snapshot import SnapshotBuilder


class SchedulingSnapshots(ControllerBase):
    """Builds the snapshots of provisioning and disruption in the same way."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._capacity_buffers = context.capacity_buffers
        self._assignments = context.assignments
        self._builder = SnapshotBuilder(context.cache, context.assignments)

    def get_pending_pods(self) -> Iterator[Pod]:
        """Yield provisionable pods that are not assigned to a NodeClaim."""
        for pod in self._cache.unbound_pods():
            if is_provisionable(pod) and not self._assignments.is_assigned(pod):
                yield pod

    def build(self, now: datetime) -> ClusterSnapshot:
        """Return the cluster at this instant, with the NodePools that can launch nodes.

        The virtual pods of CapacityBuffers are pending, too.
        """
        pools = [pool for pool in self._cache.pools() if can_provision(pool)]
        types = {pool.name: self._cloud_provider.instance_types(pool) for pool in pools}
        pending = sorted(self.get_pending_pods(), key=lambda pod: pod.key)
        return self._builder.build(
            now,
            pending=(*pending, *self._capacity_buffers.pods()),
            pools=[pool for pool in pools if types[pool.name]],
            types={name: available for name, available in types.items() if available},
        )
