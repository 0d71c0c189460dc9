"""Replacement: a command that waits for new nodes before it deletes the old ones.

Its whole state is in the API server: annotations on the new NodeClaims, and the
disrupted taint on the old nodes. After a crash the next process continues it.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import INITIALIZED, INSTANCE_TERMINATING
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true

CREATION_GRACE_PERIOD: Final = timedelta(seconds=30)
"""All new NodeClaims of a replacement exist by then, or their process has crashed."""
# Large replacements get more time: nodes launch and register at a limited rate.
_TIMEOUT_PER_NODE: Final = timedelta(milliseconds=80)
_MIN_TIMEOUT: Final = timedelta(minutes=10)
_MAX_TIMEOUT: Final = timedelta(hours=1)


class ReplacedClaim(msgspec.Struct, frozen=True, order=True):
    """A NodeClaim to delete."""

    name: str
    uid: str


class Replacement(msgspec.Struct, frozen=True, kw_only=True):
    """NodeClaims that are deleted once all of their replacements are initialized."""

    replaced: tuple[ReplacedClaim, ...]
    new_claims: tuple[str, ...]

    @property
    def key(self) -> str:
        return ",".join(self.new_claims)

    def encode_annotations(self) -> dict[str, str]:
        """Return the annotations of each new NodeClaim."""
        return {
            label_keys.REPLACES_ANNOTATION: ",".join(f"{claim.name}/{claim.uid}" for claim in self.replaced),
            label_keys.REPLACEMENTS_ANNOTATION: self.key,
        }


def create_replacement(claims: Iterable[NodeClaim], new_claims: Iterable[str]) -> Replacement:
    """Return the replacement of NodeClaims by new ones with these names."""
    replaced = sorted(ReplacedClaim(claim.name, claim.uid) for claim in claims)
    return Replacement(replaced=tuple(replaced), new_claims=tuple(sorted(new_claims)))


def decode_replacement(claim: NodeClaim) -> Replacement | None:
    """Return the replacement that a new NodeClaim belongs to, or None."""
    replaced = claim.annotations.get(label_keys.REPLACES_ANNOTATION, "")
    new_claims = claim.annotations.get(label_keys.REPLACEMENTS_ANNOTATION, "")
    if not replaced or not new_claims:
        return None
    pairs = (entry.partition("/") for entry in replaced.split(","))
    return Replacement(
        replaced=tuple(ReplacedClaim(name, uid) for name, _, uid in pairs),
        new_claims=tuple(new_claims.split(",")),
    )


def get_timeout(nodes: int) -> timedelta:
    """Return the timeout of replacements while so many nodes wait for theirs."""
    return min(max(_TIMEOUT_PER_NODE * nodes, _MIN_TIMEOUT), _MAX_TIMEOUT)


class ReplacementAction(StrEnum):
    """Next action of the disruption queue for a replacement."""

    WAIT = "wait"
    DELETE = "delete"
    """Delete the replaced NodeClaims."""
    ROLL_BACK = "roll back"
    """Keep the old nodes; the new ones stay as ordinary nodes."""
    DONE = "done"


class ReplacementStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Next action for a replacement, with its reason or deadline."""

    action: ReplacementAction
    remaining: tuple[NodeClaim, ...] = ()
    """Replaced NodeClaims that are not being deleted yet."""
    uninitialized: tuple[NodeClaim, ...] = ()
    """New NodeClaims to wait for."""
    message: str = ""
    deadline: datetime | None = None


class ReplacementContext(msgspec.Struct, frozen=True, kw_only=True):
    """Lookups needed to evaluate a replacement."""

    now: datetime
    get_claim: Callable[[str], NodeClaim | None]
    is_tainted: Callable[[NodeClaim], bool]
    """True if the disrupted taint keeps new pods off the NodeClaim's node."""
    waiting_nodes: int
    """Number of nodes of all replacements that wait for new nodes."""


def evaluate_replacement(replacement: Replacement, context: ReplacementContext) -> ReplacementStatus:
    """Return the next action for a replacement."""
    remaining = tuple(claim for old in replacement.replaced if (claim := _get_remaining(old, context)))
    if not remaining:
        return ReplacementStatus(action=ReplacementAction.DONE)
    existing = [claim for name in replacement.new_claims if (claim := context.get_claim(name)) is not None]
    valid = [claim for claim in existing if not claim.deleting and decode_replacement(claim) == replacement]
    uninitialized = tuple(claim for claim in valid if not is_true(claim.conditions, INITIALIZED))
    started = min((claim.created for claim in valid if claim.created), default=context.now)
    deadline = started + get_timeout(context.waiting_nodes)
    untainted = [claim.name for claim in remaining if not context.is_tainted(claim)]
    problem = ""
    if untainted:
        problem = f"the disrupted taint of {untainted[0]} was removed"
    elif len(valid) < len(replacement.new_claims):
        if _may_be_in_creation(valid, existing, context.now):
            return ReplacementStatus(action=ReplacementAction.WAIT, deadline=started + CREATION_GRACE_PERIOD)
        missing = sorted(set(replacement.new_claims) - {claim.name for claim in valid})
        problem = f"replacement {', '.join(missing)} is gone"
    elif not uninitialized:
        return ReplacementStatus(action=ReplacementAction.DELETE, remaining=remaining)
    elif context.now >= deadline:
        problem = f"replacement {uninitialized[0].name} was not initialized in time"
    if problem:
        return ReplacementStatus(
            action=ReplacementAction.ROLL_BACK,
            remaining=remaining,
            uninitialized=uninitialized,
            message=problem,
        )
    return ReplacementStatus(
        action=ReplacementAction.WAIT, remaining=remaining, uninitialized=uninitialized, deadline=deadline
    )


def _may_be_in_creation(valid: Sequence[NodeClaim], existing: Sequence[NodeClaim], now: datetime) -> bool:
    """Return True if missing NodeClaims may not have been created yet."""
    if len(valid) < len(existing):
        return False  # One is being deleted, or a rollback has begun.
    created = [claim.created for claim in valid if claim.created is not None]
    return bool(created) and now < min(created) + CREATION_GRACE_PERIOD


def _get_remaining(replaced: ReplacedClaim, context: ReplacementContext) -> NodeClaim | None:
    """Return a replaced NodeClaim unless it is deleted or recreated."""
    claim = context.get_claim(replaced.name)
    if claim is None or claim.uid != replaced.uid or claim.deleting:
        return None
    return None if is_true(claim.conditions, INSTANCE_TERMINATING) else claim
