"""Pod predicates: which pods are rescheduled, evicted, drained or protected."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.taints import DISRUPTED_TAINT
from dovetail.model.kube.workloads import PodDisruptionBudget

STUCK_AFTER: Final = timedelta(minutes=1)
"""After this time beyond its deletion timestamp a pod is stuck terminating."""

_ALWAYS_VALUE: Final = "true"
_UNITS: Final = {"h": 3600 * 10**6, "m": 60 * 10**6, "s": 10**6, "ms": 10**3, "us": 1, "µs": 1, "ns": 10**-3}
_DURATION_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|h|m|s)")
_DURATION: Final = re.compile(rf"[+-]?(0|(?:{_DURATION_PART.pattern})+)")
_MAX_MICROSECONDS: Final = 290 * 365 * 86400 * 10**6


class Protection(msgspec.Struct, frozen=True):
    """Current meaning of a pod's do-not-disrupt annotation."""

    active: bool = False
    until: datetime | None = None
    """When it ends or ended; None: it has no end, or the pod has not started."""
    invalid_value: str = ""
    """The value of an invalid annotation."""


class PodEvent(msgspec.Struct, frozen=True):
    """A Kubernetes Event about a pod's annotation."""

    reason: str
    message: str
    warning: bool = False


_NONE: Final = Protection()
_ALWAYS: Final = Protection(active=True)


def is_active(pod: Pod) -> bool:
    """Return True if a pod runs or will run and is not being deleted."""
    return not pod.is_terminal and not pod.deleting


def is_reschedulable(pod: Pod) -> bool:
    """Return True if a pod needs another node when its node is removed.

    A terminating pod of a StatefulSet counts: its successor is created only after
    it is gone.
    """
    if pod.is_terminal or pod.is_owned_by_daemon_set or pod.is_static:
        return False
    return not pod.deleting or (pod.owner is not None and pod.owner.kind == "StatefulSet")


def tolerates_disrupted_taint(pod: Pod) -> bool:
    """Return True if a pod tolerates the disrupted taint and stays to the end."""
    return any(toleration.tolerates(DISRUPTED_TAINT) for toleration in pod.spec.tolerations)


def is_drainable(pod: Pod, now: datetime) -> bool:
    """Return True if a drain waits for a pod."""
    return not (pod.is_static or is_stuck_terminating(pod, now) or tolerates_disrupted_taint(pod))


def is_evictable(pod: Pod, now: datetime) -> bool:
    """Return True if a pod may be evicted, PodDisruptionBudgets aside."""
    return (
        is_active(pod)
        and not pod.is_static
        and not tolerates_disrupted_taint(pod)
        and not get_protection(pod, now).active
    )


def is_stuck_terminating(pod: Pod, now: datetime) -> bool:
    """Return True if a pod should be gone long ago; its kubelet is probably dead."""
    return pod.deleted_at is not None and now > pod.deleted_at + STUCK_AFTER


def get_protection(pod: Pod, now: datetime) -> Protection:
    """Decode a pod's do-not-disrupt annotation: ``true``, or a duration since its start."""
    value = pod.annotations.get(label_keys.DO_NOT_DISRUPT)
    if value is None:
        return _NONE
    if value == _ALWAYS_VALUE:
        return _ALWAYS
    span = _parse_duration(value)
    if span is None or span <= timedelta():
        return Protection(invalid_value=value or '""')
    if pod.start_time is None:
        # The duration starts with the pod; until then it is protected.
        return _ALWAYS
    until = pod.start_time + span
    return Protection(active=now < until, until=until)


def create_protection_event(pod: Pod, now: datetime) -> PodEvent | None:
    """Return the Event about a pod's do-not-disrupt annotation, or None."""
    if label_keys.DO_NOT_DISRUPT not in pod.annotations:
        return None
    protection = get_protection(pod, now)
    if protection.invalid_value:
        return PodEvent(
            "InvalidDoNotDisruptAnnotation",
            f"{label_keys.DO_NOT_DISRUPT} is neither 'true' nor a duration such as '1h30m': "
            f"{protection.invalid_value}; it is ignored",
            warning=True,
        )
    if protection.until is None:
        return None
    when = f"{protection.until:%Y-%m-%dT%H:%M:%SZ}"
    if protection.active:
        return PodEvent("DoNotDisruptUntil", f"Pod is not disrupted until {when}")
    return PodEvent("DoNotDisruptGracePeriodElapsed", f"Pod may be disrupted: its protection ended at {when}")


def get_blocking_pdbs(
    pod: Pod, pdbs: Sequence[PodDisruptionBudget], now: datetime
) -> tuple[PodDisruptionBudget, ...]:
    """Return the budgets that block a pod's eviction now; empty: it may be evicted.

    ``pdbs`` are those that select the pod. Kubernetes evicts no pod that several of
    them select, whatever they allow.
    """
    if not pdbs or not is_evictable(pod, now):
        return ()
    if len(pdbs) > 1:
        return tuple(pdbs)
    (only,) = pdbs
    if only.disruptions_allowed > 0 or (only.always_allow_unhealthy and not pod.ready):
        return ()
    return (only,)


def is_currently_reschedulable(pod: Pod, pdbs: Sequence[PodDisruptionBudget], now: datetime) -> bool:
    """Return True if a pod on a node under deletion will soon need another node.

    False for a protected pod, and for one whose PodDisruptionBudget never allows an
    eviction. A budget that is used up will recover.
    """
    if not is_reschedulable(pod):
        return False
    if pod.deleting:
        return True
    if get_protection(pod, now).active or len(pdbs) > 1:
        return False
    return not any(
        pdb.blocks_all_evictions and not (pdb.always_allow_unhealthy and not pod.ready) for pdb in pdbs
    )


def _parse_duration(text: str) -> timedelta | None:
    """Parse a Go duration: ``1h30m``, ``1.5h``, ``-5s``, ``0``; None if it is invalid."""
    if not _DURATION.fullmatch(text):
        return None
    micros = sum(float(number) * _UNITS[unit] for number, unit in _DURATION_PART.findall(text))
    if micros > _MAX_MICROSECONDS:
        return None
    return timedelta(microseconds=-micros if text.startswith("-") else micros)
