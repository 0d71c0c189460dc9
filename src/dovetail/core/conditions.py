"""The rules by which status conditions change: one root that sums up its dependents."""

from datetime import datetime

import msgspec

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.conditions import FALSE, TRUE, UNKNOWN, Condition, Conditions


class Family(msgspec.Struct, frozen=True):
    """Which conditions an object must have for its root to be True."""

    dependents: tuple[str, ...]
    root: str = "Ready"
    """Empty where no condition sums up the others."""


CLAIM = Family(("Launched", "Registered", "Initialized"))
POOL = Family(("ValidationSucceeded", "NodeClassReady"))
OVERLAY = Family(("ValidationSucceeded",))
BUFFER = Family((), root="")


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The object whose conditions change, at the instant they do."""

    family: Family
    now: datetime
    created: datetime | None = None
    generation: int = 0
    deleting: bool = False


def settled(known: Conditions, subject: Subject) -> Conditions:
    """Return conditions with those that must be there, Unknown since the object's creation."""
    awaited = Condition(
        status=UNKNOWN,
        reason="AwaitingReconciliation",
        message="object is awaiting reconciliation",
        since=subject.created or subject.now,
        generation=subject.generation,
    )
    names = (*subject.family.dependents, subject.family.root)
    missing = {name: awaited for name in names if name and name not in known}
    return FrozenDict({**known, **missing}) if missing else known


def changed(
    known: Conditions,
    subject: Subject,
    kind: str,
    status: str,
    *,
    reason: str = "",
    message: str = "",
) -> Conditions:
    """Return conditions after one was looked at; its time moves only with its status."""
    known = settled(known, subject)
    before = known.get(kind)
    moved = before is None or before.status != status
    after = Condition(
        status=status,
        reason=reason or kind,
        message=message,
        since=subject.now if moved or before is None else before.since,
        generation=subject.generation,
    )
    now = {**known, kind: after}
    if subject.deleting:
        # Nobody looks at the others any more; the root must not flap for that.
        now = {
            name: msgspec.structs.replace(one, generation=subject.generation)
            for name, one in now.items()
        }
    after_all = FrozenDict(now)
    return _with_root(after_all, subject) if subject.family.root else after_all


def cleared(known: Conditions, kind: str) -> Conditions:
    """Return conditions without one that the root does not depend on."""
    if kind not in known:
        return known
    return FrozenDict({name: one for name, one in known.items() if name != kind})


def _with_root(known: Conditions, subject: Subject) -> Conditions:
    family = subject.family
    healthy = [
        one.status == TRUE and one.generation == subject.generation
        for one in (known[name] for name in family.dependents)
    ]
    failing = [
        name
        for name in family.dependents
        if known[name].status == FALSE and known[name].generation == subject.generation
    ]
    if all(healthy):
        status, reason, message = TRUE, family.root, ""
    else:
        unmet = [
            f"{name}={known[name].status}"
            for name, good in zip(family.dependents, healthy, strict=True)
            if not good
        ]
        status = FALSE if failing else UNKNOWN
        reason = "UnhealthyDependents" if failing else "ReconcilingDependents"
        message = ", ".join(unmet)
    before = known[family.root]
    root = Condition(
        status=status,
        reason=reason,
        message=message,
        since=before.since if before.status == status else subject.now,
        generation=subject.generation,
    )
    return FrozenDict({**known, family.root: root})
