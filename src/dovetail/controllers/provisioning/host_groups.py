"""Host groups: pods with required affinity by hostname.

Behind the feature gate HostGroupReplacement.

Finds groups that are stuck on a node without room, which ``core.disruption.host_groups``
replaces; and makes kube-scheduler try a group again that has room on another node now.
"""

from datetime import datetime, timedelta
from typing import Final

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.core.scheduling.host_groups import find_stuck_groups
from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import Plan
from dovetail.model.snapshot import ClusterSnapshot
from dovetail.ports.kube_errors import ApiError

RETRY_AFTER: Final = timedelta(seconds=20)
"""Time for kube-scheduler to bind a pod by itself, from the first plan with a node for it."""


class HostGroups(ControllerBase):
    """Evaluates each plan of the provisioner; does nothing without the feature gate."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._stuck = context.host_groups
        self._is_enabled = context.feature_gates.HostGroupReplacement
        self._placed_since: dict[str, datetime] = {}
        """UID of a pod → when a plan first placed it on an initialized node."""

    async def handle_plan(self, snapshot: ClusterSnapshot, plan: Plan) -> None:
        """Record nodes with stuck groups, and requeue a pod of each group that has room."""
        if self._is_enabled:
            self._record_stuck_groups(snapshot, plan)
            await self._requeue_placed_groups(snapshot, plan)

    def _record_stuck_groups(self, snapshot: ClusterSnapshot, plan: Plan) -> None:
        groups = find_stuck_groups(snapshot, [entry.pod for entry in plan.unschedulable])
        # Assigned pods count as bound in a snapshot; a group whose members are not bound is not stuck.
        bound = {pod.key for group in groups for pod in self._cache.pods_on(group.node)}
        stuck = [group.node for group in groups if any(member.key in bound for member in group.members)]
        self._stuck.record(stuck, self._loop.now())

    async def _requeue_placed_groups(self, snapshot: ClusterSnapshot, plan: Plan) -> None:
        """Evict one pending pod per node that kube-scheduler does not try again.

        The last member of a group has left its old host, so that any node with room
        will do. kube-scheduler does not see that: the deletion of a pod retries only
        pods with anti-affinity to it, all others after five minutes. The successor of
        an evicted pod is tried at once, and the others of the group follow it. No
        PodDisruptionBudget counts pods that are not running.
        """
        now = self._loop.now()
        ready = {node.name for node in snapshot.nodes if node.initialized}
        placed = {
            placement.node: [pod for pod in placement.pods if _can_requeue(pod)]
            for placement in plan.existing
            if placement.node in ready
        }
        uids = [pod.uid for pods in placed.values() for pod in pods]
        self._placed_since = {uid: self._placed_since.get(uid, now) for uid in uids}
        for pods in placed.values():
            waiting = [pod for pod in pods if self._placed_since[pod.uid] + RETRY_AFTER <= now]
            if waiting:
                await self._evict(min(waiting, key=lambda pod: pod.key))

    async def _evict(self, pod: Pod) -> None:
        try:
            await self._kube.evict(pod.name, pod.namespace, uid=pod.uid)
        except ApiError as error:
            self._log.error("could not evict pending pod", pod=pod.key, error=str(error))
            return
        self._log.info("evicted pending pod, so that kube-scheduler tries its group again", pod=pod.key)


def _can_requeue(pod: Pod) -> bool:
    """Return True for a pending pod of a workload with required affinity by hostname."""
    return (
        not pod.node_name
        and not pod.deleting
        and pod.owner is not None
        and pod.owner.controller
        and label_keys.DO_NOT_DISRUPT not in pod.annotations
        and any(term.topology_key == label_keys.HOSTNAME for term in pod.spec.affinity)
    )
