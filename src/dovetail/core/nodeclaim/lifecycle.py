"""What becomes of a claim: launched, registered, initialised, or given up."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.core.conditions import CLAIM, Subject, changed, settled
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import FALSE, TRUE, UNKNOWN, is_true, status_of
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import UNREGISTERED, Taint, is_ephemeral
from dovetail.model.node import NodeObject

LAUNCHED: Final = "Launched"
REGISTERED: Final = "Registered"
INITIALIZED: Final = "Initialized"
INSTANCE_TERMINATING: Final = "InstanceTerminating"
LONGEST_MESSAGE: Final = 300


class Bought(msgspec.Struct, frozen=True, kw_only=True):
    """What was bought for a claim."""

    provider_id: str
    image_id: str = ""
    labels: FrozenDict[str, str] = FrozenDict()
    annotations: FrozenDict[str, str] = FrozenDict()
    capacity: Resources = Resources()
    allocatable: Resources = Resources()


class Unmet(msgspec.Struct, frozen=True):
    """Why a condition is not True yet."""

    reason: str
    message: str
    status: str = UNKNOWN


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long a claim may take, from when the condition last changed."""

    launch: timedelta = timedelta(minutes=5)
    registration: timedelta = timedelta(minutes=15)


class Overdue(msgspec.Struct, frozen=True):
    """A claim that has taken too long; ``reason`` as metrics have it."""

    reason: str


def subject(claim: NodeClaim, now: datetime) -> Subject:
    """Return the claim as the rules for conditions see it."""
    return Subject(
        family=CLAIM,
        now=now,
        created=claim.created,
        generation=claim.generation,
        deleting=claim.deleting,
    )


def stated(
    claim: NodeClaim, now: datetime, kind: str, status: str, reason: str = "", message: str = ""
) -> NodeClaim:
    """Return the claim with one condition as found now."""
    conditions = changed(
        claim.conditions, subject(claim, now), kind, status, reason=reason, message=message
    )
    return msgspec.structs.replace(claim, conditions=conditions)


def unmet(claim: NodeClaim, now: datetime, kind: str, why: Unmet) -> NodeClaim:
    """Return the claim with one condition not True, and why."""
    return stated(claim, now, kind, why.status, why.reason, why.message)


def refreshed(claim: NodeClaim, now: datetime, kind: str) -> NodeClaim:
    """Return the claim with a condition that stands, seen at the present generation."""
    known = settled(claim.conditions, subject(claim, now))[kind]
    return stated(claim, now, kind, known.status, known.reason, known.message)


def awaits_launch(claim: NodeClaim) -> bool:
    """Tell whether a machine is still to be bought."""
    return status_of(claim.conditions, LAUNCHED) == UNKNOWN


def launched(claim: NodeClaim, bought: Bought, now: datetime) -> NodeClaim:
    """Return the claim once it has a machine; labels that it had already win."""
    claim = msgspec.structs.replace(
        claim,
        labels=bought.labels.with_items(claim.labels),
        annotations=claim.annotations.with_items(bought.annotations),
        provider_id=bought.provider_id,
        image_id=bought.image_id,
        capacity=bought.capacity,
        allocatable=bought.allocatable,
    )
    return stated(claim, now, LAUNCHED, TRUE)


def shortened(message: str) -> str:
    """Cut a message to what fits into a condition or an Event."""
    return message if len(message) <= LONGEST_MESSAGE else message[:LONGEST_MESSAGE] + "…"


def awaits_registration(claim: NodeClaim) -> bool:
    """Tell whether the claim's node is still to be found."""
    return status_of(claim.conditions, REGISTERED) == UNKNOWN


def the_node(nodes: Sequence[NodeObject]) -> NodeObject | Unmet:
    """Return the one node of a machine; several are wrong for good."""
    if not nodes:
        return Unmet("NodeNotFound", "Node not registered with cluster")
    if len(nodes) > 1:
        message = "Invariant violated, matched multiple nodes"
        return Unmet("MultipleNodesFound", message, FALSE)
    return nodes[0]


def lost_taint(node: NodeObject) -> bool:
    """Tell whether a new node came without the taint that kept pods away from it."""
    if label_keys.REGISTERED in node.labels:
        return False
    return all(not _same(one, UNREGISTERED) for one in node.taints)


def taints_to_add(claim: NodeClaim, node: NodeObject) -> tuple[Taint, ...]:
    """Return the claim's taints that its node lacks.

    A node that is registered got them then. Whoever has taken a startup taint
    off since, meant it.
    """
    if node.labels.get(label_keys.DO_NOT_SYNC_TAINTS) == "true":
        return ()
    if label_keys.REGISTERED in node.labels:
        return ()
    known = {(one.key, one.effect) for one in node.taints}
    missing: dict[tuple[str, str], Taint] = {}
    for one in (*claim.taints, *claim.startup_taints):
        if (one.key, one.effect) not in known:
            missing.setdefault((one.key, one.effect), one)
    return tuple(missing.values())


def registered(claim: NodeClaim, node: NodeObject, now: datetime) -> NodeClaim:
    """Return the claim once its node is one of ours."""
    return stated(msgspec.structs.replace(claim, node_name=node.name), now, REGISTERED, TRUE)


def uninitialized(claim: NodeClaim, nodes: Sequence[NodeObject]) -> Unmet | None:
    """Return why a registered claim's node cannot take pods yet, or None."""
    if len(nodes) != 1:
        return Unmet("NodeNotFound", "Node not registered with cluster")
    node = nodes[0]
    if not node.ready:
        state = status_of(node.conditions, "Ready")
        return Unmet("NodeNotReady", f"Node status is {state}, not ready")
    for taint in claim.startup_taints:
        if any(_same(taint, other) for other in node.taints):
            return Unmet("StartupTaintsExist", f"StartupTaint {taint} still exists")
    for taint in node.taints:
        if is_ephemeral(taint):
            return Unmet("KnownEphemeralTaintsExist", f"KnownEphemeralTaint {taint} still exists")
    for name in sorted(claim.requests):
        if claim.requests[name] and not node.allocatable.get(name):
            message = f"Resource {name} was requested but not registered"
            return Unmet("ResourceNotRegistered", message)
    return None


def overdue(claim: NodeClaim, now: datetime, timeouts: Timeouts) -> Overdue | datetime | None:
    """Tell whether a claim has taken too long, or when it will have; None: never."""
    known = settled(claim.conditions, subject(claim, now))
    for kind, most, reason in (
        (LAUNCHED, timeouts.launch, "launch_timeout"),
        (REGISTERED, timeouts.registration, "registration_timeout"),
    ):
        if is_true(known, kind):
            continue
        deadline = (known[kind].since or now) + most
        return deadline if now < deadline else Overdue(reason)
    return None


def expires_at(claim: NodeClaim) -> datetime | None:
    """Tell when a claim is too old; None: never."""
    if claim.expire_after is None or claim.created is None:
        return None
    return claim.created + claim.expire_after


def drain_deadline(claim: NodeClaim) -> datetime | None:
    """Tell until when a claim that is being deleted may be drained, where that is not noted."""
    if claim.termination_grace_period is None or claim.deleted_at is None:
        return None
    if label_keys.TERMINATION_TIMESTAMP in claim.annotations:
        return None
    return claim.deleted_at + claim.termination_grace_period


def next_look(claim: NodeClaim, now: datetime) -> timedelta:
    """Tell when to ask again whether a terminating instance has gone.

    Often at first, as some go at once; then as rarely as is kind to the cloud.
    """
    known = claim.conditions.get(INSTANCE_TERMINATING)
    waited = now - known.since if known is not None and known.since is not None else timedelta()
    for bound, wait in ((1, 1), (3, 2)):
        if waited < timedelta(seconds=bound):
            return timedelta(seconds=wait)
    return timedelta(seconds=5)


def _same(one: Taint, other: Taint) -> bool:
    return one.key == other.key and one.effect == other.effect
