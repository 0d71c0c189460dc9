"""Savings of disruption commands: expected, realized, and for how long."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.codec.savings_ledger import LedgerError, decode_ledger, encode_ledger
from dovetail.core.disruption.savings import (
    MAX_DURATION,
    MAX_RECORDS,
    SavingsObservation,
    add_record,
    expected_amount,
    get_end,
    is_failed,
    is_lasting,
    realized_amount,
    realized_rate,
    sum_by_reason,
    update_ledger,
)
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.model.savings import LEDGER_CONFIG_MAP, LEDGER_KEY, RemovedNode, SavingsLedger, SavingsRecord

AT = datetime(2026, 1, 1, 9, tzinfo=UTC)
DISRUPTED = FrozenDict({"DisruptionReason": Condition(status=TRUE, reason="Underutilized")})
LAUNCHED = FrozenDict({"Launched": Condition(status=TRUE, reason="Launched", last_transition_time=AT)})


def hours(number: float) -> datetime:
    return AT + timedelta(hours=number)


def a_record(*costs: float, expected: float = 0.2, **fields: Any) -> SavingsRecord:
    removed = tuple(
        RemovedNode(claim=f"old-{number}", uid=f"uid-{number}", node="n", nodepool="default", cost=cost)
        for number, cost in enumerate(costs or (0.2,))
    )
    values = {"id": "one", "at": AT, "reason": "Underutilized", **fields}
    return SavingsRecord(expected=expected, removed=removed, **values)


def a_ledger(*records: SavingsRecord) -> SavingsLedger:
    ledger = SavingsLedger()
    for record in records:
        ledger = add_record(ledger, record)
    return ledger


def a_claim(name: str, **fields: Any) -> NodeClaim:
    labels = FrozenDict({label_keys.NODEPOOL: "default"})
    return NodeClaim(name=name, **{"labels": labels, "created": AT, **fields})


def a_replacement(name: str = "new", **fields: Any) -> NodeClaim:
    replaces = {label_keys.REPLACES_ANNOTATION: "old-0/uid-0", label_keys.REPLACEMENTS_ANNOTATION: name}
    return a_claim(name, annotations=FrozenDict(replaces), conditions=LAUNCHED, **fields)


def observe(
    ledger: SavingsLedger, at: datetime, claims: Iterable[NodeClaim] = (), cost: float | None = 0.05
) -> SavingsLedger:
    by_name = {claim.name: claim for claim in claims}
    return update_ledger(
        ledger,
        SavingsObservation(
            now=at, get_claim=by_name.get, claims=by_name.values(), get_cost=lambda claim: cost
        ),
    )


def old_claim(number: int = 0, **fields: Any) -> NodeClaim:
    created = AT - timedelta(days=1)
    values = {"uid": f"uid-{number}", "created": created, "conditions": DISRUPTED, **fields}
    return a_claim(f"old-{number}", **values)


def test_deleted_node_saves_its_cost_from_the_moment_it_is_gone() -> None:
    ledger = observe(a_ledger(a_record(0.2)), hours(1))

    (record,) = ledger.records
    assert realized_amount(record, hours(1)) == 0
    assert realized_amount(record, hours(6)) == pytest.approx(5 * 0.2)
    assert expected_amount(record, hours(6)) == pytest.approx(5 * 0.2)


def test_node_saves_nothing_while_it_still_drains() -> None:
    draining = old_claim(deleting=True)

    ledger = observe(a_ledger(a_record(0.2)), hours(1), [draining])

    (record,) = ledger.records
    assert realized_amount(record, hours(1)) == 0
    assert realized_rate(record, hours(1)) == 0


def test_replacement_costs_from_its_launch_also_while_the_old_node_runs() -> None:
    ledger = a_ledger(a_record(0.2, replacements=1))

    both = observe(ledger, hours(1), [old_claim(), a_replacement()])
    alone = observe(both, hours(2), [a_replacement()])

    assert realized_amount(both.records[0], hours(1)) == pytest.approx(-0.05)
    assert realized_amount(alone.records[0], hours(4)) == pytest.approx(2 * 0.2 - 4 * 0.05)
    assert realized_rate(alone.records[0], hours(4)) == pytest.approx(0.15)


def test_saving_of_a_replaced_node_ends_with_its_replacement() -> None:
    ledger = observe(a_ledger(a_record(0.2, replacements=1)), hours(0), [a_replacement()])

    ended = observe(ledger, hours(3), [])

    (record,) = ended.records
    assert realized_amount(record, hours(9)) == realized_amount(record, hours(3))
    assert get_end(record, hours(9)) == hours(3)
    assert not is_lasting(record, hours(9))


def test_replacement_of_unknown_price_counts_nothing() -> None:
    ledger = observe(a_ledger(a_record(0.2, replacements=1)), hours(1), [a_replacement()], cost=None)

    (record,) = ledger.records
    assert (realized_amount(record, hours(5)), expected_amount(record, hours(5))) == (0, 0)


def test_launch_for_pending_pods_ends_the_saving_of_one_deleted_node() -> None:
    ledger = observe(a_ledger(a_record(0.2, 0.1)), hours(0), [])

    ledger = observe(ledger, hours(2), [a_claim("fresh", created=hours(1))])

    (record,) = ledger.records
    assert [node.until for node in record.removed] == [hours(1), None]
    assert realized_amount(record, hours(4)) == pytest.approx(1 * 0.2 + 4 * 0.1)
    assert is_lasting(record, hours(4))


def test_launch_is_counted_once_however_often_it_is_seen() -> None:
    ledger = observe(a_ledger(a_record(0.2, 0.1)), hours(0), [])
    fresh = a_claim("fresh", created=hours(1))

    first = observe(ledger, hours(2), [fresh])
    decoded = decode_ledger({"data": {LEDGER_KEY: encode_ledger(first)}})

    assert observe(decoded, hours(3), [fresh]) is decoded


def test_launch_in_another_nodepool_ends_nothing() -> None:
    other = a_claim("fresh", created=hours(1), labels=FrozenDict({label_keys.NODEPOOL: "gpu"}))

    ledger = observe(a_ledger(a_record(0.2)), hours(2), [other])

    assert ledger.records[0].removed[0].until is None


def test_replacement_of_another_command_ends_nothing() -> None:
    ledger = observe(a_ledger(a_record(0.2)), hours(2), [a_replacement(created=hours(1))])

    assert ledger.records[0].removed[0].until is None


def test_command_whose_nodes_lose_their_taint_has_failed_and_counts_nothing() -> None:
    kept = old_claim(conditions=FrozenDict())

    ledger = observe(a_ledger(a_record(0.2)), hours(1), [kept])

    (record,) = ledger.records
    assert is_failed(record)
    assert sum_by_reason(ledger, hours(9)) == {}


def test_command_that_has_just_been_recorded_has_not_failed() -> None:
    untainted = old_claim(conditions=FrozenDict())

    ledger = observe(a_ledger(a_record(0.2)), AT + timedelta(seconds=5), [untainted])

    assert not is_failed(ledger.records[0])


def test_no_saving_lasts_longer_than_thirty_days() -> None:
    ledger = observe(a_ledger(a_record(0.2)), hours(0), [])

    (record,) = ledger.records
    month = MAX_DURATION / timedelta(hours=1)
    assert realized_amount(record, AT + timedelta(days=90)) == pytest.approx(0.2 * month)
    assert not is_lasting(record, AT + timedelta(days=90))


def test_nodeclaim_that_is_recreated_under_the_same_name_counts_as_gone() -> None:
    namesake = old_claim(uid="another")

    ledger = observe(a_ledger(a_record(0.2)), hours(1), [namesake])

    assert ledger.records[0].removed[0].gone_at == hours(1)


def test_the_same_record_is_not_added_twice() -> None:
    assert add_record(a_ledger(a_record()), a_record()) == a_ledger(a_record())


def test_command_that_is_decided_again_after_a_crash_counts_once() -> None:
    first, second = a_record(0.2, id="one"), a_record(0.2, id="two", at=hours(0.1))

    ledger = observe(a_ledger(first, second), hours(1))

    assert [is_failed(record) for record in ledger.records] == [True, False]
    assert sum_by_reason(ledger, hours(3))["Underutilized"].decisions == 1


def test_ledger_keeps_the_newest_records_and_the_totals_of_all() -> None:
    ledger = SavingsLedger()
    for number in range(MAX_RECORDS + 50):
        ledger = observe(add_record(ledger, a_record(0.2, id=str(number))), hours(0), [])  # Gone at once.

    assert len(ledger.records) == MAX_RECORDS
    assert ledger.records[-1].id == str(MAX_RECORDS + 49)
    totals = sum_by_reason(ledger, hours(0))["Underutilized"]
    assert (totals.decisions, totals.nodes) == (MAX_RECORDS + 50, MAX_RECORDS + 50)
    assert len(encode_ledger(ledger)) < 200_000


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.data())
def test_observing_again_after_a_crash_never_counts_more(times: list[int], data: st.DataObject) -> None:
    """A process that crashes before it saves observes the same things again, later."""
    ledger = a_ledger(a_record(0.2, 0.1, replacements=1))
    for at in sorted(times):
        claims = [claim for claim in (a_replacement(), old_claim(1)) if data.draw(st.booleans())]
        observed = observe(ledger, hours(at), claims)
        again = observe(observed, hours(at), claims)
        assert again is observed
        if data.draw(st.booleans()):
            ledger = observed  # Saved; else the observation is lost.
    end = hours(50)
    (record,) = ledger.records
    assert realized_amount(record, end) <= (0.2 + 0.1) * 50


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "truncated"),
        ('{"records": 3}', "records"),
        ('{"version": 7}', "version 7 is not 2"),
        ('{"records": [{"id": "x", "at": "yesterday", "reason": "Empty", "removed": []}]}', "at"),
    ],
)
def test_ledger_that_cannot_be_read_is_an_error_with_the_object_and_a_remedy(text: str, problem: str) -> None:
    config_map = {
        "metadata": {"name": LEDGER_CONFIG_MAP, "namespace": "kube-system"},
        "data": {LEDGER_KEY: text},
    }

    with pytest.raises(LedgerError, match=problem) as raised:
        decode_ledger(config_map)

    assert f"kube-system/{LEDGER_CONFIG_MAP}" in str(raised.value)
    assert "remove the key" in str(raised.value)
