"""Scheduling retries: which pending pods the next pass considers.

Pods that got no node are considered again in every pass, as long as that is cheap.
Otherwise they wait for a growing interval: pods with complex specs always, all others
after a pass of many steps. A change of the pod, of NodePools, instance types or nodes
ends the interval.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from dovetail.core.scheduling.work import is_complex
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod, PodSpec
from dovetail.model.plan import Constraint, Plan
from dovetail.model.snapshot import ClusterSnapshot

FIRST_INTERVAL: Final = timedelta(seconds=10)
MAX_INTERVAL: Final = timedelta(minutes=5)
SLOW_STEPS: Final = 100_000
"""Steps of a pass, about a second, from which on its unschedulable pods wait."""


class PodSelection(msgspec.Struct, frozen=True):
    """Pending pods, by how a pass treats them."""

    ordinary: tuple[Pod, ...] = ()
    """Planned together."""
    isolated: tuple[Pod, ...] = ()
    """Pods with complex specs, or that needed too many steps; planned after all others."""
    waiting: tuple[Pod, ...] = ()
    """Not considered: their interval has not passed."""


class _Attempt(msgspec.Struct, frozen=True):
    """The latest pass that found no node for a pod."""

    spec: PodSpec
    labels: FrozenDict[str, str]
    failures: int
    """Passes without a node since the last change."""
    pass_number: int
    next_at: datetime
    waits: bool
    is_isolated: bool
    """Its spec is complex, or it needed too many steps when it was planned with others."""


class SchedulingRetries:
    """Attempts to find nodes for pending pods, by UID of the pod."""

    def __init__(self) -> None:
        self._attempts: dict[str, _Attempt] = {}
        self._capacity: list[Any] = []
        self._passes = 0

    def observe(self, snapshot: ClusterSnapshot) -> None:
        """End all intervals if NodePools, instance types or nodes have changed."""
        capacity = _describe_capacity(snapshot)
        if capacity != self._capacity:
            self._attempts = {
                uid: msgspec.structs.replace(attempt, failures=0, waits=False)
                for uid, attempt in self._attempts.items()
            }
            self._capacity = capacity
        pending = {pod.uid for pod in snapshot.pending_pods}
        self._attempts = {uid: attempt for uid, attempt in self._attempts.items() if uid in pending}

    def select(self, pods: Iterable[Pod], now: datetime) -> PodSelection:
        """Return the pods that a pass at this time considers."""
        ordinary, isolated, waiting = [], [], []
        for pod in pods:
            attempt = self._find_attempt(pod)
            if attempt is not None and attempt.waits and now < attempt.next_at:
                waiting.append(pod)
            elif is_complex(pod.spec) or (attempt is not None and attempt.is_isolated):
                isolated.append(pod)
            else:
                ordinary.append(pod)
        return PodSelection(tuple(ordinary), tuple(isolated), tuple(waiting))

    def get_last_passes(self) -> Mapping[str, int]:
        """Return the pods to consider last: UID → number of the latest pass without a node."""
        return {
            uid: attempt.pass_number
            for uid, attempt in self._attempts.items()
            if attempt.waits or attempt.is_isolated
        }

    def record(self, plan: Plan, now: datetime) -> None:
        """Record the pods without a node; postponed ones keep what is known of them."""
        self._passes += 1
        is_slow = plan.steps > SLOW_STEPS
        for result in plan.unschedulable:
            pod = result.pod
            attempt = self._find_attempt(pod)
            failures = 0 if attempt is None else attempt.failures
            was_given_up = any(reason.constraint is Constraint.COMPLEXITY for reason in result.reasons)
            is_isolated = (
                was_given_up or is_complex(pod.spec) or (attempt is not None and attempt.is_isolated)
            )
            interval = min(FIRST_INTERVAL * 2**failures, MAX_INTERVAL)
            self._attempts[pod.uid] = _Attempt(
                pod.spec,
                pod.labels,
                min(failures + 1, _MAX_FAILURES),
                self._passes,
                now + interval,
                is_slow or is_isolated,
                is_isolated,
            )

    def _find_attempt(self, pod: Pod) -> _Attempt | None:
        """Return the latest attempt for a pod; None if the pod has changed since."""
        attempt = self._attempts.get(pod.uid)
        if attempt is None or attempt.spec != pod.spec or attempt.labels != pod.labels:
            return None
        return attempt


_MAX_FAILURES: Final = 10
"""Failures that are counted: the interval is at its maximum before."""


def _describe_capacity(snapshot: ClusterSnapshot) -> list[Any]:
    """Return what decides about the nodes that pods can get, for comparison.

    Instance types are compared by identity: they are built again when a node class, an
    offering or a price changes, and there are hundreds for each NodePool.
    """
    return [
        [(pool.name, pool.uid, pool.generation, pool.ready) for pool in snapshot.nodepools],
        [_Identity(types) for types in snapshot.instance_types.values()],
        [(node.name, node.labels, node.taints, node.initialized, node.deleting) for node in snapshot.nodes],
        (snapshot.daemon_sets, snapshot.volume_claims, snapshot.volumes, snapshot.storage_classes),
    ]


class _Identity:
    """Compares an object by identity and keeps it, so that its id is not used again."""

    __slots__ = ("_obj",)

    def __init__(self, obj: object) -> None:
        self._obj = obj

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self._obj is other._obj

    def __hash__(self) -> int:
        return id(self._obj)
