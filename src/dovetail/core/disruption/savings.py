"""Savings of disruption commands: expected and realized amounts of a record.

The realized saving is the price of what went minus the price of what came, while it
lasts. A replaced node saves until its replacement goes. A deleted node saves until its
NodePool launches a node for pending pods, because then capacity is needed again; each
such launch ends the saving of one deleted node. No saving lasts longer than 30 days.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from dovetail.core.disruption.command import Command
from dovetail.core.disruption.replacement import decode_replacement
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import DISRUPTION_REASON, LAUNCHED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import DisruptionReason
from dovetail.model.kube.conditions import is_true
from dovetail.model.savings import (
    AddedNode,
    LaunchCursor,
    ReasonTotals,
    RemovedNode,
    SavingsLedger,
    SavingsRecord,
)

MAX_RECORDS: Final = 200
"""About 60 kB; a ConfigMap holds 1 MiB."""
MAX_DURATION: Final = timedelta(days=30)
"""Default ``expireAfter``: by then, the node would have been replaced anyway."""
_START_TIME: Final = timedelta(seconds=30)
"""Time for a command to taint its nodes and create its replacements."""
_HOUR: Final = timedelta(hours=1)

GetCost = Callable[[NodeClaim], float | None]
"""NodeClaim → USD per hour with node cost; None: unknown."""


class SavingsObservation(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster, to bring the ledger up to date."""

    now: datetime
    get_claim: Callable[[str], NodeClaim | None]
    claims: Iterable[NodeClaim]
    get_cost: GetCost


def create_record(command: Command, reason: DisruptionReason, now: datetime) -> SavingsRecord:
    """Return the record of a command that is about to start."""
    removed = tuple(
        RemovedNode(
            claim=candidate.claim.name,
            uid=candidate.claim.uid,
            node=candidate.node.name,
            nodepool=candidate.pool.name,
            instance_type=candidate.node.labels.get(label_keys.INSTANCE_TYPE, ""),
            zone=candidate.node.labels.get(label_keys.ZONE, ""),
            capacity_type=candidate.node.labels.get(label_keys.CAPACITY_TYPE, ""),
            cost=round(candidate.cost, 6),
        )
        for candidate in command.candidates
    )
    return SavingsRecord(
        # A NodeClaim can be tainted again after a rollback; the time makes the ID unique.
        id=f"{removed[0].claim}-{now:%Y%m%dT%H%M%S}",
        at=now,
        reason=reason.value,
        expected=round(command.saving, 6),
        pods=command.pod_count,
        replacements=len(command.replacements) + len(command.template_nodepools),
        removed=removed,
    )


def add_record(ledger: SavingsLedger, record: SavingsRecord) -> SavingsLedger:
    """Return the ledger with a record; one with the same ID is not added again.

    An earlier command for one of its nodes did not get further: after a crash or a
    rollback, the same node is chosen again. There the node counts as kept.
    """
    if any(known.id == record.id for known in ledger.records):
        return ledger
    again = {(node.claim, node.uid) for node in record.removed}
    records = (*(_supersede(known, again) for known in ledger.records), record)
    totals = ledger.totals
    while len(records) > MAX_RECORDS:
        dropped = next((known for known in records if not is_lasting(known, record.at)), records[0])
        records = tuple(known for known in records if known is not dropped)
        if not is_failed(dropped):
            totals = {**totals, dropped.reason: _add_to_totals(totals, dropped, record.at)}
    return replace(ledger, since=ledger.since or record.at, records=records, totals=totals)


def _supersede(record: SavingsRecord, again: set[tuple[str, str]]) -> SavingsRecord:
    if not any((node.claim, node.uid) in again and node.gone_at is None for node in record.removed):
        return record
    removed = tuple(
        replace(node, kept=True) if (node.claim, node.uid) in again and node.gone_at is None else node
        for node in record.removed
    )
    return replace(record, removed=removed)


def update_ledger(ledger: SavingsLedger, observed: SavingsObservation) -> SavingsLedger:
    """Return the ledger with what has happened since; the same object if nothing has."""
    records = tuple(
        _update_record(record, observed) for record in _add_replacements(ledger.records, observed.claims)
    )
    cursor = ledger.launches
    launches = _find_launches(cursor, observed.claims)
    if launches:
        records = _end_deletions(records, launches)
        cursor = _advance(cursor, launches)
    if cursor is ledger.launches and all(
        new is old for new, old in zip(records, ledger.records, strict=True)
    ):
        return ledger
    return replace(ledger, records=records, launches=cursor)


# -- Amounts ---------------------------------------------------------------------------------


def realized_amount(record: SavingsRecord, now: datetime) -> float:
    """Return USD saved so far; negative while old and new nodes run side by side."""
    if is_failed(record) or not _is_priced(record):
        return 0.0
    return _sum_realized(record, _get_gone(record), _get_end(record, now))


def _sum_realized(record: SavingsRecord, gone: list[RemovedNode], end: datetime) -> float:
    saved = sum(node.cost * _hours(node.gone_at, min(end, node.until or end)) for node in gone)
    spent = sum(
        node.cost * _hours(node.launched_at, min(end, node.gone_at or end))
        for node in record.added
        if node.cost is not None
    )
    return saved - spent


def realized_rate(record: SavingsRecord, now: datetime) -> float:
    """Return USD per hour saved now; 0 after the end."""
    if not is_lasting(record, now) or not _is_priced(record):
        return 0.0
    saved = sum(node.cost for node in _get_gone(record) if node.until is None)
    return saved - sum(node.cost or 0.0 for node in record.added if node.launched_at is not None)


def expected_amount(record: SavingsRecord, now: datetime) -> float:
    """Return USD that would be saved as expected since each node went."""
    return _sum_expected(record, _get_gone(record), _get_end(record, now)) if _is_priced(record) else 0.0


def _sum_expected(record: SavingsRecord, gone: list[RemovedNode], end: datetime) -> float:
    total = sum(node.cost for node in record.removed)
    if not total:
        return sum(record.expected * _hours(node.gone_at, end) for node in gone) / len(record.removed)
    shares = (node.cost / total * _hours(node.gone_at, min(end, node.until or end)) for node in gone)
    return record.expected * sum(shares)


def is_failed(record: SavingsRecord) -> bool:
    """Return True if all nodes of a command were kept."""
    return all(node.kept for node in record.removed)


def is_running(record: SavingsRecord) -> bool:
    """Return True until all nodes are gone or kept."""
    return any(node.gone_at is None and not node.kept for node in record.removed)


def is_lasting(record: SavingsRecord, now: datetime) -> bool:
    """Return True while a command saves, or is about to."""
    if is_failed(record) or _get_end(record, now) < now:
        return False
    return any(node.until is None and not node.kept for node in record.removed)


def get_end(record: SavingsRecord, now: datetime) -> datetime | None:
    """Return when the saving ended; None while it lasts."""
    if is_failed(record) or is_lasting(record, now):
        return None
    ends = [node.until for node in record.removed if node.until is not None]
    return min(_get_end(record, now), max(ends, default=now))


def sum_by_reason(ledger: SavingsLedger, now: datetime) -> dict[str, ReasonTotals]:
    """Return expected and realized amounts of all commands, by reason."""
    totals = dict(ledger.totals)
    for record in ledger.records:
        if not is_failed(record):
            totals[record.reason] = _add_to_totals(totals, record, now)
    return dict(sorted(totals.items()))


def _add_to_totals(totals: Mapping[str, ReasonTotals], record: SavingsRecord, now: datetime) -> ReasonTotals:
    before = totals.get(record.reason, ReasonTotals())
    expected = realized = 0.0
    if _is_priced(record):
        gone, end = _get_gone(record), _get_end(record, now)
        expected, realized = _sum_expected(record, gone, end), _sum_realized(record, gone, end)
    return ReasonTotals(
        decisions=before.decisions + 1,
        nodes=before.nodes + sum(1 for node in record.removed if not node.kept),
        expected=before.expected + expected,
        realized=before.realized + realized,
    )


def _get_gone(record: SavingsRecord) -> list[RemovedNode]:
    return [node for node in record.removed if node.gone_at is not None and not node.kept]


def _get_end(record: SavingsRecord, now: datetime) -> datetime:
    """Return when a record stops to count: now, unless a replacement has gone."""
    gone = (node.gone_at for node in record.added if node.gone_at is not None)
    return min(now, record.at + MAX_DURATION, *gone)


def _is_priced(record: SavingsRecord) -> bool:
    """Return False if the cost of a replacement is not known (yet): then nothing is counted."""
    return sum(1 for node in record.added if node.cost is not None) >= record.replacements


def _hours(start: datetime | None, end: datetime) -> float:
    return 0.0 if start is None or end <= start else (end - start) / _HOUR


# -- Observation -----------------------------------------------------------------------------


def _add_replacements(
    records: tuple[SavingsRecord, ...], claims: Iterable[NodeClaim]
) -> tuple[SavingsRecord, ...]:
    """Add the NodeClaims that say in an annotation what they replace."""
    waiting = {
        (node.claim, node.uid): number
        for number, record in enumerate(records)
        if len(record.added) < record.replacements
        for node in record.removed
    }
    if not waiting:
        return records
    matches: dict[int, set[str]] = {}
    for claim in claims:
        replacement = decode_replacement(claim)
        for old in replacement.replaced if replacement is not None else ():
            number = waiting.get((old.name, old.uid))
            # An earlier replacement of the same NodeClaim may have been rolled back.
            if number is not None and claim.created and claim.created >= _to_second(records[number].at):
                matches.setdefault(number, set()).add(claim.name)
    changed = list(records)
    for number, names in matches.items():
        known = {node.claim for node in records[number].added}
        added = (*records[number].added, *(AddedNode(claim=name) for name in sorted(names - known)))
        if len(added) > len(known):
            changed[number] = replace(records[number], added=added)
    return tuple(changed)


def _to_second(at: datetime) -> datetime:
    """Return the whole second: creation times have no fraction."""
    return at.replace(microsecond=0)


def _update_record(record: SavingsRecord, observed: SavingsObservation) -> SavingsRecord:
    if is_failed(record) or _get_end(record, observed.now) < observed.now:
        return record
    removed = tuple(_update_removed(node, record, observed) for node in record.removed)
    added = tuple(_update_added(node, observed) for node in record.added)
    if removed == record.removed and added == record.added:
        return record
    return replace(record, removed=removed, added=added)


def _update_removed(node: RemovedNode, record: SavingsRecord, observed: SavingsObservation) -> RemovedNode:
    if node.gone_at is not None or node.kept:
        return node
    claim = observed.get_claim(node.claim)
    if claim is None or claim.uid != node.uid:
        return replace(node, gone_at=observed.now)
    is_kept = not claim.deleting and not is_true(claim.conditions, DISRUPTION_REASON)
    return replace(node, kept=True) if is_kept and record.at + _START_TIME <= observed.now else node


def _update_added(node: AddedNode, observed: SavingsObservation) -> AddedNode:
    if node.gone_at is not None:
        return node
    claim = observed.get_claim(node.claim)
    if claim is None:
        return replace(node, gone_at=observed.now)
    if node.cost is not None or not is_true(claim.conditions, LAUNCHED):
        return node
    cost = observed.get_cost(claim)
    if cost is None:
        return node
    return replace(
        node,
        cost=round(cost, 6),
        instance_type=claim.labels.get(label_keys.INSTANCE_TYPE, ""),
        launched_at=claim.conditions[LAUNCHED].last_transition_time or observed.now,
    )


def _find_launches(cursor: LaunchCursor | None, claims: Iterable[NodeClaim]) -> list[NodeClaim]:
    """Return NodeClaims created since the cursor, oldest first."""
    created = [claim for claim in claims if claim.created is not None and _is_after(cursor, claim)]
    return sorted(created, key=lambda claim: (str(claim.created), claim.name))


def _is_after(cursor: LaunchCursor | None, claim: NodeClaim) -> bool:
    if cursor is None or claim.created is None:
        return True
    return claim.created > cursor.at or (claim.created == cursor.at and claim.name not in cursor.names)


def _advance(cursor: LaunchCursor | None, launches: list[NodeClaim]) -> LaunchCursor:
    newest = max(claim.created for claim in launches if claim.created is not None)
    names = {claim.name for claim in launches if claim.created == newest}
    if cursor is not None and cursor.at == newest:
        names |= set(cursor.names)
    return LaunchCursor(at=newest, names=tuple(sorted(names)))


def _end_deletions(
    records: tuple[SavingsRecord, ...], launches: Iterable[NodeClaim]
) -> tuple[SavingsRecord, ...]:
    """End the saving of one deleted node for each launch, the longest deleted first."""
    replacements = {node.claim for record in records for node in record.added}
    for claim in launches:
        if claim.created is None or claim.name in replacements:
            continue
        if label_keys.REPLACES_ANNOTATION in claim.annotations:
            continue
        records = _end_deletion(records, claim.pool, claim.created)
    return records


def _end_deletion(records: tuple[SavingsRecord, ...], pool: str, at: datetime) -> tuple[SavingsRecord, ...]:
    for number, record in enumerate(records):
        if record.replacements or _to_second(record.at) > at or record.at + MAX_DURATION < at:
            continue
        for position, node in enumerate(record.removed):
            if node.nodepool == pool and node.until is None and not node.kept:
                ended = replace(node, until=at)
                removed = (*record.removed[:position], ended, *record.removed[position + 1 :])
                changed = replace(record, removed=removed)
                return (*records[:number], changed, *records[number + 1 :])
    return records
