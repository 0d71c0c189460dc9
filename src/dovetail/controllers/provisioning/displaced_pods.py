"""Displaced pods: assigned pods that need another node, found soon after initialization."""

from datetime import datetime, timedelta
from typing import Final

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.scheduling_snapshot import SchedulingSnapshots
from dovetail.core.provisioning import format_names
from dovetail.core.scheduling.displaced import find_displaced_pods
from dovetail.model.kube.pod import Pod

_INTERVAL: Final = timedelta(seconds=10)
"""Time between two checks of a node."""
_MAX_NODES: Final = 50
"""Nodes in one check. Each costs milliseconds; hundreds wait while kube-scheduler is slow."""


class DisplacedPods(ControllerBase):
    """Releases the assignments of pods that their initialized node does not accept.

    Without it, they would wait until kube-scheduler clears their nomination, which
    takes up to five minutes.
    """

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._assignments = context.assignments
        self._executor = context.executor
        self._settings = context.scheduling_settings
        self._snapshots = SchedulingSnapshots(context)
        self._checked: dict[str, datetime] = {}
        """Provider ID → when its pods were checked last."""

    async def release(self, now: datetime) -> None:
        """Check ready nodes whose pods are not bound yet; release the pods that do not fit."""
        unbound = self._assignments.unbound_by_node(now)
        self._checked = {key: at for key, at in self._checked.items() if key in unbound}
        # Nodes that were never checked come first.
        due = sorted((key for key in unbound if self._is_due(key, now)), key=self._checked.__contains__)
        due = due[:_MAX_NODES]
        if not due:
            return
        self._checked |= dict.fromkeys(due, now)
        nodes = {key: node.name for key in due if (node := self._cache.joined_node(key)) is not None}
        waiting = {name: unbound[key] for key, name in nodes.items()}
        snapshot = self._snapshots.build(now)

        displaced = await self._executor.run(lambda: find_displaced_pods(snapshot, self._settings, waiting))

        if displaced:
            self._assignments.release(displaced)
            self._log.info(
                "node(s) do not accept pod(s) they were launched for",
                nodes=format_names(sorted(name for name in waiting if _has_any(waiting[name], displaced))),
                pods=format_names(sorted(pod.key for pod in displaced)),
            )

    def next_check_at(self, now: datetime) -> datetime | None:
        """Return when ``release`` must run again; None if no pod is assigned to a ready node."""
        repeated = [at + _INTERVAL for at in self._checked.values()]
        first = self._assignments.next_check_at(now)
        return min([*repeated, *([first] if first is not None else [])], default=None)

    def _is_due(self, key: str, now: datetime) -> bool:
        checked = self._checked.get(key)
        return checked is None or checked + _INTERVAL <= now


def _has_any(pods: tuple[Pod, ...], displaced: list[Pod]) -> bool:
    return any(pod.uid == other.uid for pod in pods for other in displaced)
