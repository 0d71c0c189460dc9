"""NodeClaim lifecycle: launch, registration, initialization, termination.

::

    created -> Launched -> Registered -> Initialized -> (Consolidatable, Drifted ...)
        timeout 5 min    15 min

A deleted NodeClaim keeps its finalizer until its instance is terminated. Which
controller terminates the instance depends on what exists:

* Node exists: ``controllers.node.termination`` drains the node, then terminates.
* No Node: the finalizer of ``controllers.nodeclaim.lifecycle`` terminates.
* No NodeClaim: ``controllers.nodeclaim.garbage_collection`` terminates.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.core.conditions import (
    NODECLAIM_CONDITIONS,
    ConditionOwner,
    add_missing_conditions,
    set_condition,
)
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.condition_types import INSTANCE_TERMINATING, LAUNCHED, REGISTERED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import FALSE, READY, TRUE, UNKNOWN, condition_status, is_true
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import UNREGISTERED_TAINT, Taint, is_ephemeral
from dovetail.model.node import NodeObject

MAX_MESSAGE_LENGTH: Final = 300


class LaunchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Instance launched for a NodeClaim."""

    provider_id: str
    image_id: str = ""
    labels: FrozenDict[str, str] = FrozenDict()
    annotations: FrozenDict[str, str] = FrozenDict()
    capacity: Resources = Resources()
    allocatable: Resources = Resources()


class UnmetCondition(msgspec.Struct, frozen=True):
    """Status, reason and message of a condition that is not True."""

    reason: str
    message: str
    status: str = UNKNOWN


class LifecycleTimeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts of a NodeClaim, from the last transition of the condition."""

    launch: timedelta = timedelta(minutes=5)
    registration: timedelta = timedelta(minutes=15)


class TimedOut(msgspec.Struct, frozen=True):
    """A NodeClaim whose timeout has passed; ``reason`` is a metric label."""

    reason: str


def get_condition_owner(claim: NodeClaim, now: datetime) -> ConditionOwner:
    """Return the NodeClaim as owner of conditions."""
    return ConditionOwner(
        condition_set=NODECLAIM_CONDITIONS,
        now=now,
        created=claim.created,
        generation=claim.generation,
        deleting=claim.deleting,
    )


def set_claim_condition(
    claim: NodeClaim, now: datetime, condition_type: str, status: str, reason: str = "", message: str = ""
) -> NodeClaim:
    """Return the NodeClaim with one condition set."""
    owner = get_condition_owner(claim, now)
    conditions = set_condition(
        claim.conditions, owner, condition_type, status, reason=reason, message=message
    )
    return msgspec.structs.replace(claim, conditions=conditions)


def set_unmet_condition(
    claim: NodeClaim, now: datetime, condition_type: str, unmet: UnmetCondition
) -> NodeClaim:
    """Return the NodeClaim with one unmet condition set."""
    return set_claim_condition(claim, now, condition_type, unmet.status, unmet.reason, unmet.message)


def refresh_condition(claim: NodeClaim, now: datetime, condition_type: str) -> NodeClaim:
    """Return the NodeClaim with an unchanged condition at the current generation."""
    same = add_missing_conditions(claim.conditions, get_condition_owner(claim, now))[condition_type]
    return set_claim_condition(claim, now, condition_type, same.status, same.reason, same.message)


def is_unlaunched(claim: NodeClaim) -> bool:
    """Return True if the NodeClaim has not been launched."""
    return condition_status(claim.conditions, LAUNCHED) == UNKNOWN


def set_launched(claim: NodeClaim, result: LaunchResult, now: datetime) -> NodeClaim:
    """Return the NodeClaim with its instance; its own labels take precedence."""
    claim = msgspec.structs.replace(
        claim,
        labels=result.labels.with_items(claim.labels),
        annotations=claim.annotations.with_items(result.annotations),
        provider_id=result.provider_id,
        image_id=result.image_id,
        capacity=result.capacity,
        allocatable=result.allocatable,
    )
    return set_claim_condition(claim, now, LAUNCHED, TRUE)


def truncate_message(message: str) -> str:
    """Truncate a message to fit a condition or an Event."""
    return message if len(message) <= MAX_MESSAGE_LENGTH else message[:MAX_MESSAGE_LENGTH] + "…"


def is_unregistered(claim: NodeClaim) -> bool:
    """Return True if the NodeClaim has not been registered."""
    return condition_status(claim.conditions, REGISTERED) == UNKNOWN


def get_single_node(nodes: Sequence[NodeObject]) -> NodeObject | UnmetCondition:
    """Return the only node of an instance; several nodes are a permanent error."""
    if not nodes:
        return UnmetCondition("NodeNotFound", "Node not registered with cluster")
    if len(nodes) > 1:
        message = "Invariant violated, matched multiple nodes"
        return UnmetCondition("MultipleNodesFound", message, FALSE)
    return nodes[0]


def lacks_unregistered_taint(node: NodeObject) -> bool:
    """Return True if an unregistered node lacks the taint that keeps pods off it."""
    if label_keys.REGISTERED in node.labels:
        return False
    return all(not _is_same_taint(taint, UNREGISTERED_TAINT) for taint in node.taints)


def get_missing_taints(claim: NodeClaim, node: NodeObject) -> tuple[Taint, ...]:
    """Return the NodeClaim's taints that its node lacks.

    None for a registered node: it got them at registration, and startup taints
    removed since then must not come back.
    """
    if node.labels.get(label_keys.DO_NOT_SYNC_TAINTS) == "true" or label_keys.REGISTERED in node.labels:
        return ()
    existing = {(taint.key, taint.effect) for taint in node.taints}
    missing: dict[tuple[str, str], Taint] = {}
    for taint in (*claim.taints, *claim.startup_taints):
        if (taint.key, taint.effect) not in existing:
            missing.setdefault((taint.key, taint.effect), taint)
    return tuple(missing.values())


def set_registered(claim: NodeClaim, node: NodeObject, now: datetime) -> NodeClaim:
    """Return the NodeClaim with its registered node."""
    return set_claim_condition(msgspec.structs.replace(claim, node_name=node.name), now, REGISTERED, TRUE)


def get_uninitialized_reason(claim: NodeClaim, nodes: Sequence[NodeObject]) -> UnmetCondition | None:
    """Return why a registered NodeClaim is not initialized, or None."""
    if len(nodes) != 1:
        return UnmetCondition("NodeNotFound", "Node not registered with cluster")
    node = nodes[0]
    if not node.ready:
        state = condition_status(node.conditions, READY)
        return UnmetCondition("NodeNotReady", f"Node status is {state}, not ready")
    for taint in claim.startup_taints:
        if any(_is_same_taint(taint, other) for other in node.taints):
            return UnmetCondition("StartupTaintsExist", f"StartupTaint {taint} still exists")
    for taint in node.taints:
        if is_ephemeral(taint):
            return UnmetCondition("KnownEphemeralTaintsExist", f"KnownEphemeralTaint {taint} still exists")
    for name in sorted(claim.requests):
        if claim.requests[name] and not node.allocatable.get(name):
            message = f"Resource {name} was requested but not registered"
            return UnmetCondition("ResourceNotRegistered", message)
    return None


def check_timeouts(
    claim: NodeClaim, now: datetime, timeouts: LifecycleTimeouts
) -> TimedOut | datetime | None:
    """Return the passed timeout, or the time when it will pass; None: no timeout."""
    conditions = add_missing_conditions(claim.conditions, get_condition_owner(claim, now))
    for name, timeout, reason in (
        (LAUNCHED, timeouts.launch, "launch_timeout"),
        (REGISTERED, timeouts.registration, "registration_timeout"),
    ):
        if not is_true(conditions, name):
            deadline = (conditions[name].last_transition_time or now) + timeout
            return deadline if now < deadline else TimedOut(reason)
    return None


def get_expiration_time(claim: NodeClaim) -> datetime | None:
    """Return when a NodeClaim expires; None: never."""
    if claim.expire_after is None or claim.created is None:
        return None
    return claim.created + claim.expire_after


def get_new_drain_deadline(claim: NodeClaim) -> datetime | None:
    """Return the drain deadline of a deleted NodeClaim that has no annotation for it yet."""
    if claim.termination_grace_period is None or claim.deleted_at is None:
        return None
    if label_keys.TERMINATION_TIMESTAMP in claim.annotations:
        return None
    return claim.deleted_at + claim.termination_grace_period


def get_termination_poll_interval(claim: NodeClaim, now: datetime) -> timedelta:
    """Return when to check again whether a terminating instance is gone.

    Short at first, as some terminate at once; later longer, to save API calls.
    """
    condition = claim.conditions.get(INSTANCE_TERMINATING)
    since = condition.last_transition_time if condition is not None else None
    waited = now - since if since is not None else timedelta()
    for bound, interval in ((1, 1), (3, 2)):  # seconds
        if waited < timedelta(seconds=bound):
            return timedelta(seconds=interval)
    return timedelta(seconds=5)


def _is_same_taint(taint: Taint, other: Taint) -> bool:
    return taint.key == other.key and taint.effect == other.effect
