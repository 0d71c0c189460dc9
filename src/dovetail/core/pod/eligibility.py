"""What may be done to a pod: which pods come back, may be evicted, are waited for."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.taints import DISRUPTED
from dovetail.model.kube.workloads import DisruptionBudget

STUCK_AFTER: Final = timedelta(minutes=1)
"""A pod that has not gone so long after it had to is not going to."""

_FOREVER: Final = "true"
_UNITS: Final = {
    "h": 3600 * 10**6,
    "m": 60 * 10**6,
    "s": 10**6,
    "ms": 10**3,
    "us": 1,
    "µs": 1,
    "ns": 10**-3,
}
_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|h|m|s)")
_DURATION: Final = re.compile(rf"[+-]?(0|(?:{_PART.pattern})+)")
_LONGEST: Final = 290 * 365 * 86400 * 10**6


class Protection(msgspec.Struct, frozen=True):
    """What a pod's do-not-disrupt annotation means now."""

    active: bool = False
    until: datetime | None = None
    """When it ends or ended; None where it has no end, or none that is known yet."""
    mistake: str = ""
    """The annotation's value, where it says nothing that can be heeded."""


class Remark(msgspec.Struct, frozen=True):
    """What to tell people about a pod's annotation, as a Kubernetes Event."""

    reason: str
    message: str
    warning: bool = False


_NONE: Final = Protection()
_ALWAYS: Final = Protection(active=True)


def is_active(pod: Pod) -> bool:
    """Tell whether a pod runs or will, and nobody is taking it away."""
    return not pod.terminal and not pod.deleting


def is_reschedulable(pod: Pod) -> bool:
    """Tell whether a pod would ask for another node if it lost this one.

    A StatefulSet's pod that is going away is replaced only once it has gone, so
    it still speaks for its successor.
    """
    if pod.terminal or pod.of_daemon_set or pod.static:
        return False
    return not pod.deleting or (pod.owner is not None and pod.owner.kind == "StatefulSet")


def tolerates_disruption(pod: Pod) -> bool:
    """Tell whether a pod wants to stay to the end, by tolerating the taint."""
    return any(one.tolerates(DISRUPTED) for one in pod.spec.tolerations)


def is_drainable(pod: Pod, now: datetime) -> bool:
    """Tell whether draining concerns itself with a pod at all."""
    return not (pod.static or is_stuck(pod, now) or tolerates_disruption(pod))


def is_evictable(pod: Pod, now: datetime) -> bool:
    """Tell whether a pod may be asked to go, as far as it has a say itself."""
    return (
        is_active(pod)
        and not pod.static
        and not tolerates_disruption(pod)
        and not protection(pod, now).active
    )


def is_stuck(pod: Pod, now: datetime) -> bool:
    """Tell whether a pod should have gone long ago; its kubelet is likely dead."""
    return pod.deleted_at is not None and now > pod.deleted_at + STUCK_AFTER


def protection(pod: Pod, now: datetime) -> Protection:
    """Read a pod's do-not-disrupt annotation: ``true``, or how long after its start."""
    value = pod.annotations.get(label_keys.DO_NOT_DISRUPT)
    if value is None:
        return _NONE
    if value == _FOREVER:
        return _ALWAYS
    span = _duration(value)
    if span is None or span <= timedelta():
        return Protection(mistake=value or '""')
    if pod.started is None:
        # Its time has not begun to run; better too careful than sorry.
        return _ALWAYS
    until = pod.started + span
    return Protection(active=now < until, until=until)


def remark_on(pod: Pod, now: datetime) -> Remark | None:
    """Return what there is to say about a pod's do-not-disrupt annotation, if anything."""
    if label_keys.DO_NOT_DISRUPT not in pod.annotations:
        return None
    found = protection(pod, now)
    if found.mistake:
        return Remark(
            "InvalidDoNotDisruptAnnotation",
            f"{label_keys.DO_NOT_DISRUPT} is neither 'true' nor a duration such as '1h30m': "
            f"{found.mistake}; it is ignored",
            warning=True,
        )
    if found.until is None:
        return None
    when = f"{found.until:%Y-%m-%dT%H:%M:%SZ}"
    if found.active:
        return Remark("DoNotDisruptUntil", f"Pod is not disrupted until {when}")
    return Remark(
        "DoNotDisruptGracePeriodElapsed", f"Pod may be disrupted: its time was over at {when}"
    )


def blocking_budget(
    pod: Pod, budgets: Sequence[DisruptionBudget], now: datetime
) -> tuple[DisruptionBudget, ...]:
    """Return the budgets that would refuse a pod's eviction now; none: it may go.

    ``budgets`` are those that select the pod. Kubernetes evicts no pod that
    several of them select, whatever they allow.
    """
    if not budgets or not is_evictable(pod, now):
        return ()
    if len(budgets) > 1:
        return tuple(budgets)
    (only,) = budgets
    if only.allowed > 0 or (only.always_allow_unhealthy and not pod.ready):
        return ()
    return (only,)


def is_currently_reschedulable(
    pod: Pod, budgets: Sequence[DisruptionBudget], now: datetime
) -> bool:
    """Tell whether a pod on a node that goes away will soon ask for another.

    Not one that may not be disrupted now, nor one whose budget never lets
    anybody go; a budget that is merely used up will recover.
    """
    if not is_reschedulable(pod):
        return False
    if pod.deleting:
        return True
    if protection(pod, now).active or len(budgets) > 1:
        return False
    return not any(
        one.blocks_fully and not (one.always_allow_unhealthy and not pod.ready) for one in budgets
    )


def _duration(text: str) -> timedelta | None:
    """Read a duration as Go writes them: ``1h30m``, ``1.5h``, ``-5s``, ``0``."""
    if not _DURATION.fullmatch(text):
        return None
    micros = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if micros > _LONGEST:
        return None
    return timedelta(microseconds=-micros if text.startswith("-") else micros)
