"""Decisions on the way of a claim; the world around them is in tests/controllers."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.nodeclaim.lifecycle import (
    LAUNCHED,
    REGISTERED,
    Bought,
    Overdue,
    Timeouts,
    Unmet,
    drain_deadline,
    expires_at,
    launched,
    lost_taint,
    next_look,
    overdue,
    refreshed,
    shortened,
    stated,
    taints_to_add,
    the_node,
    uninitialized,
    unmet,
)
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import FALSE, TRUE, UNKNOWN, Condition, status_of
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import UNREGISTERED, Effect, Taint
from dovetail.model.node import NodeObject

NINE = datetime(2026, 1, 1, 9, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
USUAL = Timeouts()


def a_claim(**fields: Any) -> NodeClaim:
    return NodeClaim(**{"name": "claim", "uid": "1", "created": NINE, "generation": 1, **fields})


def a_node(**fields: Any) -> NodeObject:
    ready = FrozenDict({"Ready": Condition(status=TRUE)})
    return NodeObject(**{"name": "node", "conditions": ready, **fields})


def test_what_the_cloud_says_of_a_machine_is_on_the_claim_and_old_labels_win() -> None:
    claim = a_claim(labels=FrozenDict({"a": "claim"}), annotations=FrozenDict({"x": "claim"}))
    bought = Bought(
        provider_id="aws:///a/i-1",
        labels=FrozenDict({"a": "cloud", "b": "cloud"}),
        annotations=FrozenDict({"x": "cloud"}),
    )

    after = launched(claim, bought, NINE)

    assert after.labels == {"a": "claim", "b": "cloud"}
    assert after.annotations == {"x": "cloud"}
    assert status_of(after.conditions, LAUNCHED) == TRUE


def test_a_condition_that_stands_is_seen_at_the_newer_generation() -> None:
    claim = stated(a_claim(), NINE, LAUNCHED, TRUE)

    after = refreshed(a_claim(generation=2, conditions=claim.conditions), NINE + MINUTE, LAUNCHED)

    assert after.conditions[LAUNCHED].generation == 2
    assert after.conditions[LAUNCHED].since == NINE


def test_a_reason_that_changes_does_not_move_the_clock() -> None:
    first = unmet(a_claim(), NINE + MINUTE, LAUNCHED, Unmet("LaunchFailed", "no"))

    second = unmet(first, NINE + 2 * MINUTE, LAUNCHED, Unmet("Unauthorized", "still no"))

    assert first.conditions[LAUNCHED].since == second.conditions[LAUNCHED].since == NINE


@given(st.text(max_size=600))
def test_a_shortened_message_fits_and_begins_like_the_long_one(message: str) -> None:
    short = shortened(message)

    assert len(short) <= 301
    assert message.startswith(short.removesuffix("…") if len(message) > 300 else short)


def test_one_node_is_the_node() -> None:
    assert the_node([a_node()]) == a_node()


@pytest.mark.parametrize(
    ("count", "reason", "status"),
    [(0, "NodeNotFound", UNKNOWN), (2, "MultipleNodesFound", FALSE)],
)
def test_no_node_or_several_are_not_the_node(count: int, reason: str, status: str) -> None:
    found = the_node([a_node()] * count)

    assert isinstance(found, Unmet)
    assert (found.reason, found.status) == (reason, status)


def test_the_taint_is_missed_only_on_a_node_that_is_not_registered() -> None:
    registered = FrozenDict({label_keys.REGISTERED: "true"})

    assert lost_taint(a_node())
    assert not lost_taint(a_node(taints=(UNREGISTERED,)))
    assert not lost_taint(a_node(labels=registered))


_TAINTS = st.builds(
    Taint, st.sampled_from("abc"), st.sampled_from(Effect), st.sampled_from(["", "x"])
)


@given(st.lists(_TAINTS), st.lists(_TAINTS), st.lists(_TAINTS))
def test_a_node_has_all_taints_of_its_claim_once_those_to_add_are_added(
    taints: list[Taint], startup: list[Taint], known: list[Taint]
) -> None:
    claim = a_claim(taints=tuple(taints), startup_taints=tuple(startup))
    node = a_node(taints=tuple(known))

    added = taints_to_add(claim, node)

    places = {(one.key, one.effect) for one in (*known, *added)}
    assert {(one.key, one.effect) for one in (*taints, *startup)} <= places
    new = [(one.key, one.effect) for one in added]
    assert len(new) == len({*new} - {(one.key, one.effect) for one in known})
    again = a_node(taints=(*known, *added))
    assert taints_to_add(claim, again) == ()


def test_what_keeps_a_node_from_taking_pods_is_named_one_thing_at_a_time() -> None:
    booting = Taint("booting", Effect.NO_SCHEDULE)
    claim = a_claim(
        startup_taints=(booting,), requests=Resources({"cpu": 1, "gpu": 1, "unused": 0})
    )
    starting = Taint("node.kubernetes.io/not-ready", Effect.NO_EXECUTE)
    cpu = Resources({"cpu": 4})
    steps = [
        (),
        (a_node(conditions=FrozenDict(), taints=(booting, starting)),),
        (a_node(taints=(booting, starting)),),
        (a_node(taints=(starting,)),),
        (a_node(allocatable=cpu),),
        (a_node(allocatable=cpu + {"gpu": 1}),),
    ]

    found = [uninitialized(claim, nodes) for nodes in steps]

    assert [one and one.reason for one in found] == [
        "NodeNotFound",
        "NodeNotReady",
        "StartupTaintsExist",
        "KnownEphemeralTaintsExist",
        "ResourceNotRegistered",
        None,
    ]


def test_launching_has_five_minutes_and_registering_fifteen() -> None:
    waiting = a_claim()
    bought = stated(a_claim(), NINE, LAUNCHED, TRUE)
    done = stated(bought, NINE, REGISTERED, TRUE)

    assert overdue(waiting, NINE, USUAL) == NINE + 5 * MINUTE
    assert overdue(waiting, NINE + 5 * MINUTE, USUAL) == Overdue("launch_timeout")
    assert overdue(bought, NINE, USUAL) == NINE + 15 * MINUTE
    assert overdue(bought, NINE + 15 * MINUTE, USUAL) == Overdue("registration_timeout")
    assert overdue(done, NINE + 999 * MINUTE, USUAL) is None


@given(st.timedeltas(min_value=timedelta(), max_value=timedelta(hours=2)))
def test_whoever_comes_back_when_told_finds_the_claim_overdue(waited: timedelta) -> None:
    verdict = overdue(a_claim(), NINE + waited, USUAL)

    if isinstance(verdict, datetime):
        assert verdict > NINE + waited
        assert overdue(a_claim(), verdict, USUAL) == Overdue("launch_timeout")
    else:
        assert verdict == Overdue("launch_timeout")


def test_a_claim_expires_by_its_own_age() -> None:
    assert expires_at(a_claim(expire_after=MINUTE)) == NINE + MINUTE
    assert expires_at(a_claim(expire_after=None)) is None


def test_a_deadline_is_set_once_and_only_where_there_is_a_grace_period() -> None:
    going = {"deleted_at": NINE, "termination_grace_period": MINUTE}
    noted = FrozenDict({label_keys.TERMINATION_TIMESTAMP: "2026-01-01T08:00:00Z"})

    assert drain_deadline(a_claim(**going)) == NINE + MINUTE
    assert drain_deadline(a_claim(**going, annotations=noted)) is None
    assert drain_deadline(a_claim(deleted_at=NINE)) is None


def test_a_terminating_instance_is_looked_for_ever_more_rarely() -> None:
    claim = stated(a_claim(), NINE, "InstanceTerminating", TRUE)
    at, asked = NINE, [0.0]

    while len(asked) < 6:
        at += next_look(claim, at)
        asked.append((at - NINE).total_seconds())

    assert asked == [0, 1, 3, 8, 13, 18]
