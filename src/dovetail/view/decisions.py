"""Decisions of the view: from NodeClaims, Events and the savings ledger.

Decisions of Dovetail or Karpenter: NodeClaims show what was launched and
deleted, and Events why something was interrupted or refused. The ledger, which
Dovetail's controller keeps, adds savings and what happened before.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from dovetail.core.disruption.replacement import decode_replacement
from dovetail.core.disruption.savings import (
    get_end,
    is_failed,
    is_lasting,
    is_running,
    realized_amount,
    realized_rate,
    sum_by_reason,
)
from dovetail.model.karpenter.condition_types import DISRUPTION_REASON
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import DisruptionReason
from dovetail.model.savings import SavingsLedger, SavingsRecord
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.state.cluster.cache import ClusterCache, ObjectChange
from dovetail.view.claims import get_assigned_pods
from dovetail.view.document import DecisionKind, DecisionState, DecisionView, SavingsByReason, SavingsView

MAX_DECISIONS: Final = 300
_MAX_REFUSALS: Final = 100
_KINDS: Final = {
    DisruptionReason.EMPTY: DecisionKind.CONSOLIDATED,
    DisruptionReason.UNDERUTILIZED: DecisionKind.CONSOLIDATED,
    DisruptionReason.DRIFTED: DecisionKind.DRIFTED,
}
_INTERRUPTIONS: Final = frozenset(
    (
        "SpotInterrupted",
        "InstanceStopping",
        "InstanceTerminating",
        "CapacityReservationInstanceInterrupted",
        "TerminatingOnInterruption",
    )
)
_REFUSALS: Final = frozenset(
    ("Unconsolidatable", "DisruptionBlocked", "ConsolidationRejected", "NodeRepairBlocked")
)
_INVOLVED: Final = ("NodeClaim", "Node", "NodePool")


class _Interruption(msgspec.Struct, frozen=True):
    """Event that an instance is interrupted."""

    at: datetime
    reason: str
    message: str

    def is_cause_of(self, deletion: datetime) -> bool:
        """Return False if it is a consequence: EC2 reports also instances that we terminate."""
        return self.at <= deletion


class DecisionLog:
    """The newest decisions that NodeClaims and Events show; bounded."""

    def __init__(self, cache: ClusterCache) -> None:
        self._decisions: dict[str, DecisionView] = {}
        self._interruptions: dict[str, _Interruption] = {}
        """NodeClaim → the earliest interruption."""
        self._refusals: dict[str, DecisionView] = {}
        cache.subscribe(NODE_CLAIMS, self._on_claim)

    def add_events(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Add Events of the API server; the same one again changes nothing."""
        for event in events:
            involved = event.get("involvedObject") or {}
            kind, name, reason = involved.get("kind"), str(involved.get("name")), event.get("reason")
            at = _get_time(event)
            if kind not in _INVOLVED or at is None:
                continue
            message = str(event.get("message") or "")
            if reason in _INTERRUPTIONS and kind == "NodeClaim":
                self._add_interruption(name, _Interruption(at, str(reason), message))
            elif reason in _REFUSALS and kind != "NodeClaim":
                self._add_refusal(str(kind), name, str(reason), message, at)

    def build(self, ledger: SavingsLedger, now: datetime) -> tuple[DecisionView, ...]:
        """Return all decisions, newest first; those in the ledger with their savings."""
        recorded = {node.claim for record in ledger.records for node in record.removed}
        observed = (
            decision
            for decision in self._decisions.values()
            if decision.kind is DecisionKind.LAUNCHED or not recorded.issuperset(decision.node_claims)
        )
        decisions = [*show_records(ledger, now), *observed]
        decisions += self._refusals.values()
        decisions.sort(key=lambda decision: (decision.at, decision.key), reverse=True)
        return tuple(decisions[:MAX_DECISIONS])

    def _on_claim(self, change: ObjectChange) -> None:
        claim: NodeClaim = change.latest
        if claim.created is not None and f"launched/{claim.name}" not in self._decisions:
            self._add(_show_launch(claim, claim.created))
        if claim.deleting and claim.deleted_at is not None:
            state = DecisionState.DONE if change.new is None else DecisionState.RUNNING
            self._add(self._show_deletion(claim, claim.deleted_at, state))

    def _show_deletion(self, claim: NodeClaim, at: datetime, state: DecisionState) -> DecisionView:
        kind, reason, message = self._classify(claim, at)
        return DecisionView(
            key=f"deleted/{claim.name}",
            kind=kind,
            at=at,
            state=state,
            reason=reason,
            message=message,
            node_pools=(claim.pool,) if claim.pool else (),
            nodes=(claim.node_name,) if claim.node_name else (),
            node_claims=(claim.name,),
        )

    def _classify(self, claim: NodeClaim, at: datetime) -> tuple[DecisionKind, str, str]:
        """Return kind, reason and message of a deleted NodeClaim."""
        condition = claim.conditions.get(DISRUPTION_REASON)
        if condition is not None and condition.reason in _KINDS:
            reason = DisruptionReason(condition.reason)
            return _KINDS[reason], reason.value, ""
        interruption = self._interruptions.get(claim.name)
        if interruption is not None and interruption.is_cause_of(at):
            return DecisionKind.INTERRUPTED, interruption.reason, interruption.message
        if claim.expire_after is not None and claim.created and at >= claim.created + claim.expire_after:
            return DecisionKind.EXPIRED, "Expired", "it is older than expireAfter of its NodePool"
        return DecisionKind.DELETED, "Deleted", ""

    def _add_interruption(self, claim: str, interruption: _Interruption) -> None:
        before = self._interruptions.get(claim)
        if before is not None and before.at <= interruption.at:
            return
        self._interruptions[claim] = interruption
        _trim(self._interruptions, MAX_DECISIONS)
        known = self._decisions.get(f"deleted/{claim}")
        if known is not None and known.kind is DecisionKind.DELETED and interruption.is_cause_of(known.at):
            kind, reason, message = DecisionKind.INTERRUPTED, interruption.reason, interruption.message
            self._add(msgspec.structs.replace(known, kind=kind, reason=reason, message=message))

    def _add_refusal(self, kind: str, name: str, reason: str, message: str, at: datetime) -> None:
        key = f"refused/{kind}/{name}/{reason}"
        known = self._refusals.pop(key, None)
        self._refusals[key] = (
            known
            if known is not None and known.at >= at
            else DecisionView(
                key=key,
                kind=DecisionKind.REFUSED,
                at=at,
                reason=reason,
                message=message,
                node_pools=(name,) if kind == "NodePool" else (),
                nodes=(name,) if kind == "Node" else (),
            )
        )
        _trim(self._refusals, _MAX_REFUSALS)

    def _add(self, decision: DecisionView) -> None:
        self._decisions[decision.key] = decision
        if len(self._decisions) > 4 * MAX_DECISIONS:
            # In bulk: a cluster of thousands of NodeClaims is added one by one.
            newest = sorted(self._decisions.values(), key=lambda known: known.at)[-2 * MAX_DECISIONS :]
            self._decisions = {known.key: known for known in newest}


def build_savings(ledger: SavingsLedger, now: datetime) -> SavingsView:
    """Return the totals of the ledger."""
    by_reason = {
        reason: SavingsByReason(
            decisions=totals.decisions, nodes=totals.nodes, expected=totals.expected, realized=totals.realized
        )
        for reason, totals in sum_by_reason(ledger, now).items()
    }
    lasting = [record for record in ledger.records if is_lasting(record, now)]
    return SavingsView(
        since=ledger.since,
        expected=sum(totals.expected for totals in by_reason.values()),
        realized=sum(totals.realized for totals in by_reason.values()),
        expected_per_hour=sum(record.expected for record in lasting),
        realized_per_hour=sum(realized_rate(record, now) for record in lasting),
        by_reason=by_reason,
    )


def show_records(ledger: SavingsLedger, now: datetime) -> tuple[DecisionView, ...]:
    """Return the commands of the ledger, newest first."""
    return tuple(_show_record(record, now) for record in reversed(ledger.records))


def _show_launch(claim: NodeClaim, at: datetime) -> DecisionView:
    pods = len(get_assigned_pods(claim))
    replacement = decode_replacement(claim)
    message = f"for {pods} pod{'' if pods == 1 else 's'}" if pods else ""
    if replacement is not None:
        message = "as replacement of " + ", ".join(old.name for old in replacement.replaced)
    return DecisionView(
        key=f"launched/{claim.name}",
        kind=DecisionKind.LAUNCHED,
        at=at,
        reason="Replacement" if replacement is not None else "Provisioning",
        message=message,
        node_pools=(claim.pool,) if claim.pool else (),
        node_claims=(claim.name,),
        pods=pods,
    )


def _show_record(record: SavingsRecord, now: datetime) -> DecisionView:
    nodes = [node for node in record.removed if not node.kept]
    state = DecisionState.RUNNING if is_running(record) else DecisionState.DONE
    if is_failed(record):
        nodes, state = list(record.removed), DecisionState.FAILED
    started = any(node.gone_at is not None for node in record.removed)
    kind = _KINDS.get(record.reason, DecisionKind.DELETED)  # type: ignore[call-overload]
    return DecisionView(
        key=f"command/{record.id}",
        kind=kind,
        at=record.at,
        state=state,
        reason=record.reason,
        message=_describe_record(record, nodes_kept=len(record.removed) - len(nodes)),
        node_pools=tuple(sorted({node.nodepool for node in record.removed})),
        nodes=tuple(node.node for node in nodes),
        node_claims=tuple(node.claim for node in nodes),
        replacements=tuple(node.claim for node in record.added),
        pods=record.pods,
        expected_per_hour=record.expected,
        realized_per_hour=realized_rate(record, now) if started else None,
        realized=_round(realized_amount(record, now)),
        until=get_end(record, now),
    )


def _describe_record(record: SavingsRecord, *, nodes_kept: int) -> str:
    went = ", ".join(sorted({node.instance_type for node in record.removed if node.instance_type}))
    came = ", ".join(sorted({node.instance_type for node in record.added if node.instance_type}))
    message = f"{went} replaced by {came}" if came else went
    return f"{message}; {nodes_kept} kept" if nodes_kept else message


def _round(amount: float) -> float:
    """Return an amount to a cent's hundredth: more would change the document every second."""
    return round(amount, 4)


def _get_time(event: Mapping[str, Any]) -> datetime | None:
    for field in ("lastTimestamp", "eventTime", "firstTimestamp"):
        try:
            at = msgspec.convert(event.get(field), datetime)
        except msgspec.ValidationError:
            continue
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return None


def _trim(entries: dict[str, Any], limit: int) -> None:
    for key in tuple(_oldest(entries, limit)):
        del entries[key]


def _oldest(entries: dict[str, Any], limit: int) -> Iterator[str]:
    for _, key in zip(range(len(entries) - limit), entries, strict=False):
        yield key
