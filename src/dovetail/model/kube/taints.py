"""Taints and tolerations."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from dovetail.model.kube.requirements import parse_integer


class TaintEffect(StrEnum):
    """Effect of a taint on pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Taint(msgspec.Struct, frozen=True, cache_hash=True):
    """A taint of a node."""

    key: str
    effect: TaintEffect
    value: str = ""

    def __str__(self) -> str:
        return f"{self.key}{'=' + self.value if self.value else ''}:{self.effect}"


class Toleration(msgspec.Struct, frozen=True, cache_hash=True, weakref=True):
    """A toleration of a pod; operator Exists without a key tolerates every taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: TaintEffect | None = None

    def tolerates(self, taint: Taint) -> bool:
        if self.effect is not None and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        if not self.key:
            return False
        if self.operator in ("Lt", "Gt"):
            return _compare_integers(self.operator, taint.value, self.value)
        return self.value == taint.value


TOLERATE_PREFER_NO_SCHEDULE = Toleration(operator="Exists", effect=TaintEffect.PREFER_NO_SCHEDULE)

DISRUPTED_TAINT = Taint("karpenter.sh/disrupted", TaintEffect.NO_SCHEDULE)
UNREGISTERED_TAINT = Taint("karpenter.sh/unregistered", TaintEffect.NO_EXECUTE)
_READINESS_PREFIX = "readiness.k8s.io/"
_EPHEMERAL = frozenset(
    {
        ("node.kubernetes.io/not-ready", TaintEffect.NO_SCHEDULE),
        ("node.kubernetes.io/not-ready", TaintEffect.NO_EXECUTE),
        ("node.kubernetes.io/unreachable", TaintEffect.NO_SCHEDULE),
        ("node.cloudprovider.kubernetes.io/uninitialized", TaintEffect.NO_SCHEDULE),
        (UNREGISTERED_TAINT.key, UNREGISTERED_TAINT.effect),
    }
)


def is_ephemeral(taint: Taint) -> bool:
    """Return True if the taint is temporary: set only while a node starts."""
    return (taint.key, taint.effect) in _EPHEMERAL or taint.key.startswith(_READINESS_PREFIX)


def find_untolerated_taint(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first taint that no toleration matches, or None."""
    candidates = tuple(tolerations)
    for taint in taints:
        if not any(toleration.tolerates(taint) for toleration in candidates):
            return taint
    return None


def find_untolerated_taints(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> list[Taint]:
    """Return all taints that no toleration matches."""
    candidates = tuple(tolerations)
    return [taint for taint in taints if find_untolerated_taint((taint,), candidates) is not None]


def _compare_integers(operator: str, taint_value: str, bound: str) -> bool:
    value, limit = parse_integer(taint_value), parse_integer(bound)
    if value is None or limit is None:
        return False
    return value < limit if operator == "Lt" else value > limit
