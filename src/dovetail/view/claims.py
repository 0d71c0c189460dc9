"""NodeClaims in flight: phases with their times, and when they are expected to be ready."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from statistics import median
from typing import Final

from dovetail.core.disruption.replacement import decode_replacement
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import (
    DRAINED,
    INITIALIZED,
    INSTANCE_TERMINATING,
    LAUNCHED,
    REGISTERED,
    VOLUMES_DETACHED,
)
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.view.document import ClaimPhase, NodeClaimView, PhaseView

_UP: Final = (
    (ClaimPhase.LAUNCH, LAUNCHED),
    (ClaimPhase.REGISTRATION, REGISTERED),
    (ClaimPhase.INITIALIZATION, INITIALIZED),
)
"""Phase → condition of the NodeClaim that ends it."""
_DOWN: Final = (
    (ClaimPhase.DRAIN, DRAINED),
    (ClaimPhase.VOLUME_DETACHMENT, VOLUMES_DETACHED),
    (ClaimPhase.TERMINATION, ""),
)
_SAMPLES: Final = 50
"""Newest NodeClaims of which the expected duration is the median."""


def is_in_flight(claim: NodeClaim) -> bool:
    """Return True if a NodeClaim is not initialized yet, or is being deleted."""
    if claim.deleting or not is_true(claim.conditions, INITIALIZED):
        return True
    return is_true(claim.conditions, INSTANCE_TERMINATING)


def build_claim(claim: NodeClaim, durations: Mapping[str, timedelta]) -> NodeClaimView:
    """Return a NodeClaim in flight; ``durations`` are those of ``measure_durations``."""
    phases = tuple(_get_phases(claim))
    current = phases[-1].phase if phases else (ClaimPhase.DRAIN if claim.deleting else ClaimPhase.LAUNCH)
    replacement = decode_replacement(claim)
    label = claim.labels.get
    return NodeClaimView(
        name=claim.name,
        node_pool=claim.pool,
        node=claim.node_name,
        instance_type=label(label_keys.INSTANCE_TYPE, ""),
        zone=label(label_keys.ZONE, ""),
        capacity_type=label(label_keys.CAPACITY_TYPE, ""),
        phase=current,
        phases=phases,
        message=_get_message(claim, current),
        pods=len(get_assigned_pods(claim)),
        replaces=() if replacement is None else tuple(old.name for old in replacement.replaced),
        created_at=claim.created,
        expected_at=expect_initialized(claim, durations),
    )


def get_assigned_pods(claim: NodeClaim) -> list[str]:
    """Return the UIDs of the pods that a NodeClaim was created for."""
    entries = claim.annotations.get(label_keys.ASSIGNED_PODS_ANNOTATION, "")
    return [entry.rpartition("/")[2] for entry in entries.split(",") if entry]


def measure_durations(claims: Iterable[NodeClaim]) -> dict[str, timedelta]:
    """Return NodePool → median time from creation to initialization; empty key: of all."""
    by_pool: dict[str, list[tuple[datetime, timedelta]]] = {}
    for claim in claims:
        condition = claim.conditions.get(INITIALIZED)
        if claim.created is None or condition is None or not is_true(claim.conditions, INITIALIZED):
            continue
        if condition.last_transition_time is not None:
            sample = (claim.created, condition.last_transition_time - claim.created)
            by_pool.setdefault(claim.pool, []).append(sample)
            by_pool.setdefault("", []).append(sample)
    newest = {pool: sorted(samples)[-_SAMPLES:] for pool, samples in by_pool.items()}
    return {
        pool: timedelta(seconds=median(duration.total_seconds() for _, duration in samples))
        for pool, samples in newest.items()
    }


def expect_initialized(claim: NodeClaim, durations: Mapping[str, timedelta]) -> datetime | None:
    """Return when a NodeClaim is expected to be initialized; None: not known."""
    if claim.deleting or claim.created is None or is_true(claim.conditions, INITIALIZED):
        return None
    duration = durations.get(claim.pool, durations.get(""))
    return None if duration is None else claim.created + duration


def _get_phases(claim: NodeClaim) -> Iterable[PhaseView]:
    going_down = claim.deleting or is_true(claim.conditions, INSTANCE_TERMINATING)
    start = claim.deleted_at if claim.deleting else claim.created
    for phase, condition_type in _DOWN if going_down else _UP:
        if start is None:
            return
        condition = claim.conditions.get(condition_type)
        done = condition is not None and is_true(claim.conditions, condition_type)
        end = condition.last_transition_time if done and condition is not None else None
        # Transition times have whole seconds; an object can be younger by a fraction.
        yield PhaseView(phase=phase, started_at=start, ended_at=max(end, start) if end is not None else None)
        if end is None:
            return
        start = max(end, start)


def _get_message(claim: NodeClaim, phase: ClaimPhase) -> str:
    condition_type = dict((*_UP, *_DOWN)).get(phase, "")
    condition = claim.conditions.get(condition_type)
    if condition is None or is_true(claim.conditions, condition_type):
        return ""
    return condition.message or condition.reason
