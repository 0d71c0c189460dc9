"""Taints and the tolerations that overlook them."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from dovetail.model.kube.requirements import whole_number


class Effect(StrEnum):
    """What a taint does to a pod that does not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Taint(msgspec.Struct, frozen=True, cache_hash=True):
    """A mark on a node that keeps pods away."""

    key: str
    effect: Effect
    value: str = ""

    def __str__(self) -> str:
        return f"{self.key}{'=' + self.value if self.value else ''}:{self.effect}"


class Toleration(msgspec.Struct, frozen=True, cache_hash=True):
    """A pod's consent to a taint; no key and Exists tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: Effect | None = None

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
            return _numeric(self.operator, taint.value, self.value)
        return self.value == taint.value


TOLERATE_PREFERENCES = Toleration(operator="Exists", effect=Effect.PREFER_NO_SCHEDULE)

DISRUPTED = Taint("karpenter.sh/disrupted", Effect.NO_SCHEDULE)
UNREGISTERED = Taint("karpenter.sh/unregistered", Effect.NO_EXECUTE)
_READINESS_PREFIX = "readiness.k8s.io/"
_EPHEMERAL = frozenset(
    {
        ("node.kubernetes.io/not-ready", Effect.NO_SCHEDULE),
        ("node.kubernetes.io/not-ready", Effect.NO_EXECUTE),
        ("node.kubernetes.io/unreachable", Effect.NO_SCHEDULE),
        ("node.cloudprovider.kubernetes.io/uninitialized", Effect.NO_SCHEDULE),
        (UNREGISTERED.key, UNREGISTERED.effect),
    }
)


def is_ephemeral(taint: Taint) -> bool:
    """Tell whether a starting node carries this taint for a while only."""
    return (taint.key, taint.effect) in _EPHEMERAL or taint.key.startswith(_READINESS_PREFIX)


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first taint that nothing tolerates."""
    consent = tuple(tolerations)
    for taint in taints:
        if not any(one.tolerates(taint) for one in consent):
            return taint
    return None


def _numeric(operator: str, taint_value: str, bound: str) -> bool:
    value, limit = whole_number(taint_value), whole_number(bound)
    if value is None or limit is None:
        return False
    return value < limit if operator == "Lt" else value > limit
