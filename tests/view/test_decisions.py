"""Decisions of the view: from NodeClaims, Events and the savings ledger."""

from datetime import timedelta
from typing import Any

import pytest

from dovetail.codec.karpenter.nodeclaims import encode_nodeclaim
from dovetail.core.disruption.savings import add_record
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.model.savings import RemovedNode, SavingsLedger, SavingsRecord
from dovetail.ports import api_resources as kinds
from dovetail.view.decisions import MAX_DECISIONS, DecisionLog, build_savings
from dovetail.view.document import DecisionKind, DecisionState, DecisionView
from tests.view.clusters import BORN, NOW, Environment, a_cache, add_claim, an_environment


def a_record(claim: str = "old", **fields: Any) -> SavingsRecord:
    removed = RemovedNode(
        claim=claim, uid=claim, node="node", nodepool="default", cost=0.2, gone_at=NOW - timedelta(hours=2)
    )
    values = {"id": claim, "at": NOW - timedelta(hours=3), "reason": "Empty", "removed": (removed,), **fields}
    return SavingsRecord(expected=0.25, **values)


def decide(env: Environment, ledger: SavingsLedger | None = None) -> dict[str, DecisionView]:
    log = DecisionLog(a_cache(env))
    return {decision.key: decision for decision in log.build(ledger or SavingsLedger(), NOW)}


def deleted(reason: str = "", **fields: Any) -> dict[str, Any]:
    condition = {"DisruptionReason": Condition(status=TRUE, reason=reason)} if reason else {}
    return {"deleting": True, "deleted_at": NOW, "conditions": FrozenDict(condition), **fields}


def an_event(reason: str, kind: str = "NodeClaim", name: str = "old", message: str = "") -> dict[str, Any]:
    return {
        "reason": reason,
        "message": message,
        "involvedObject": {"kind": kind, "name": name},
        "lastTimestamp": "2026-01-01T11:00:00Z",
    }


def test_every_nodeclaim_is_a_launch_with_its_time() -> None:
    env = an_environment()
    add_claim(env, "new", annotations=FrozenDict({"dovetail.sh/assigned-pods": "a/b/c,a/d/e"}))

    (launch,) = decide(env).values()

    assert (launch.kind, launch.at, launch.message) == (DecisionKind.LAUNCHED, BORN, "for 2 pods")


@pytest.mark.parametrize(
    ("claim", "kind"),
    [
        (deleted("Underutilized"), DecisionKind.CONSOLIDATED),
        (deleted("Empty"), DecisionKind.CONSOLIDATED),
        (deleted("Drifted"), DecisionKind.DRIFTED),
        (deleted(expire_after=timedelta(minutes=30)), DecisionKind.EXPIRED),
        (deleted(), DecisionKind.DELETED),
    ],
)
def test_deleted_nodeclaim_says_why(claim: dict[str, Any], kind: DecisionKind) -> None:
    env = an_environment()
    add_claim(env, "old", **claim)

    assert decide(env)["deleted/old"].kind is kind


def test_event_makes_a_deletion_an_interruption() -> None:
    env = an_environment()
    add_claim(env, "old", **deleted())
    log = DecisionLog(a_cache(env))

    log.add_events([an_event("SpotInterrupted", message="Spot interruption warning was triggered")])

    (decision, _) = log.build(SavingsLedger(), NOW)
    assert (decision.kind, decision.reason) == (DecisionKind.INTERRUPTED, "SpotInterrupted")


def test_event_of_an_instance_that_is_terminated_after_the_deletion_is_not_its_cause() -> None:
    env = an_environment()
    add_claim(env, "old", **deleted())
    log = DecisionLog(a_cache(env))

    log.add_events([{**an_event("InstanceTerminating"), "lastTimestamp": "2026-01-01T12:00:07Z"}])

    (decision, _) = log.build(SavingsLedger(), NOW)
    assert decision.kind is DecisionKind.DELETED


def test_refusal_is_shown_once_with_its_newest_message() -> None:
    log = DecisionLog(a_cache(an_environment()))
    event = an_event("Unconsolidatable", "Node", "node", "pods have no other place")

    log.add_events([event, event])

    (refusal,) = log.build(SavingsLedger(), NOW)
    assert (refusal.kind, refusal.nodes, refusal.message) == (
        DecisionKind.REFUSED,
        ("node",),
        "pods have no other place",
    )


def test_events_of_other_objects_and_without_time_are_left_out() -> None:
    log = DecisionLog(a_cache(an_environment()))

    log.add_events([an_event("Unconsolidatable", "Pod"), {"reason": "Unconsolidatable"}, {}])

    assert log.build(SavingsLedger(), NOW) == ()


def test_command_in_the_ledger_has_its_savings_and_is_not_shown_twice() -> None:
    env = an_environment()
    add_claim(env, "old", **deleted("Empty"))
    ledger = add_record(SavingsLedger(), a_record())

    decisions = decide(env, ledger)

    assert "deleted/old" not in decisions
    command = decisions["command/old"]
    assert (command.kind, command.state) == (DecisionKind.CONSOLIDATED, DecisionState.DONE)
    assert command.expected_per_hour == 0.25
    assert command.realized == pytest.approx(0.4)


def test_savings_add_up_by_reason() -> None:
    ledger = add_record(add_record(SavingsLedger(), a_record("a")), a_record("b", reason="Drifted"))

    savings = build_savings(ledger, NOW)

    assert savings.realized == pytest.approx(0.8)
    assert savings.realized_per_hour == pytest.approx(0.4)
    assert set(savings.by_reason) == {"Empty", "Drifted"}


def test_decisions_stay_bounded() -> None:
    cache = a_cache(an_environment())
    log = DecisionLog(cache)
    env = an_environment()
    for number in range(MAX_DECISIONS * 5):
        add_claim(env, f"claim-{number}", created=BORN + timedelta(seconds=number))
    for claim in env[kinds.NODE_CLAIMS]:
        obj = encode_nodeclaim(claim)
        obj["metadata"] |= {
            "resourceVersion": "1",
            "creationTimestamp": f"{claim.created:%Y-%m-%dT%H:%M:%SZ}",
        }
        cache.apply_event(kinds.NODE_CLAIMS, obj)

    decisions = log.build(SavingsLedger(), NOW)

    assert len(decisions) == MAX_DECISIONS
    assert decisions[0].node_claims == (f"claim-{MAX_DECISIONS * 5 - 1}",)
