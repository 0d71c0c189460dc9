"""Decisions of the NodeClaim lifecycle; the controllers are in tests/controllers."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.nodeclaim.lifecycle import (
    LaunchResult,
    LifecycleTimeouts,
    TimedOut,
    UnmetCondition,
    check_timeouts,
    get_expiration_time,
    get_missing_taints,
    get_new_drain_deadline,
    get_single_node,
    get_termination_poll_interval,
    get_uninitialized_reason,
    lacks_unregistered_taint,
    refresh_condition,
    set_claim_condition,
    set_launched,
    set_unmet_condition,
    truncate_message,
)
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.condition_types import LAUNCHED, REGISTERED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import FALSE, TRUE, UNKNOWN, Condition, condition_status
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import UNREGISTERED_TAINT, Taint, TaintEffect
from dovetail.model.node import NodeObject

NINE = datetime(2026, 1, 1, 9, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
USUAL = LifecycleTimeouts()


def a_claim(**fields: Any) -> NodeClaim:
    return NodeClaim(**{"name": "claim", "uid": "1", "created": NINE, "generation": 1, **fields})


def a_node(**fields: Any) -> NodeObject:
    ready = FrozenDict({"Ready": Condition(status=TRUE)})
    return NodeObject(**{"name": "node", "conditions": ready, **fields})


def test_launch_result_is_on_the_claim_and_existing_labels_win() -> None:
    claim = a_claim(labels=FrozenDict({"a": "claim"}), annotations=FrozenDict({"x": "claim"}))
    result = LaunchResult(
        provider_id="aws:///a/i-1",
        labels=FrozenDict({"a": "cloud", "b": "cloud"}),
        annotations=FrozenDict({"x": "cloud"}),
    )

    after = set_launched(claim, result, NINE)

    assert after.labels == {"a": "claim", "b": "cloud"}
    assert after.annotations == {"x": "cloud"}
    assert condition_status(after.conditions, LAUNCHED) == TRUE


def test_refreshed_condition_has_the_current_generation() -> None:
    claim = set_claim_condition(a_claim(), NINE, LAUNCHED, TRUE)

    after = refresh_condition(a_claim(generation=2, conditions=claim.conditions), NINE + MINUTE, LAUNCHED)

    assert after.conditions[LAUNCHED].observed_generation == 2
    assert after.conditions[LAUNCHED].last_transition_time == NINE


def test_changed_reason_keeps_the_transition_time() -> None:
    first = set_unmet_condition(a_claim(), NINE + MINUTE, LAUNCHED, UnmetCondition("LaunchFailed", "no"))

    second = set_unmet_condition(
        first, NINE + 2 * MINUTE, LAUNCHED, UnmetCondition("Unauthorized", "still no")
    )

    assert (
        first.conditions[LAUNCHED].last_transition_time
        == second.conditions[LAUNCHED].last_transition_time
        == NINE
    )


@given(st.text(max_size=600))
def test_truncated_message_fits_and_is_a_prefix(message: str) -> None:
    short = truncate_message(message)

    assert len(short) <= 301
    assert message.startswith(short.removesuffix("…") if len(message) > 300 else short)


def test_single_node_is_returned() -> None:
    assert get_single_node([a_node()]) == a_node()


@pytest.mark.parametrize(
    ("count", "reason", "status"), [(0, "NodeNotFound", UNKNOWN), (2, "MultipleNodesFound", FALSE)]
)
def test_no_node_or_several_nodes_are_unmet_conditions(count: int, reason: str, status: str) -> None:
    result = get_single_node([a_node()] * count)

    assert isinstance(result, UnmetCondition)
    assert (result.reason, result.status) == (reason, status)


def test_missing_taint_matters_only_before_registration() -> None:
    registered = FrozenDict({label_keys.REGISTERED: "true"})

    assert lacks_unregistered_taint(a_node())
    assert not lacks_unregistered_taint(a_node(taints=(UNREGISTERED_TAINT,)))
    assert not lacks_unregistered_taint(a_node(labels=registered))


_TAINTS = st.builds(Taint, st.sampled_from("abc"), st.sampled_from(TaintEffect), st.sampled_from(["", "x"]))


@given(st.lists(_TAINTS), st.lists(_TAINTS), st.lists(_TAINTS))
def test_missing_taints_complete_the_taints_of_the_claim(
    taints: list[Taint], startup: list[Taint], known: list[Taint]
) -> None:
    claim = a_claim(taints=tuple(taints), startup_taints=tuple(startup))
    node = a_node(taints=tuple(known))

    added = get_missing_taints(claim, node)

    places = {(taint.key, taint.effect) for taint in (*known, *added)}
    assert {(taint.key, taint.effect) for taint in (*taints, *startup)} <= places
    new = [(taint.key, taint.effect) for taint in added]
    assert len(new) == len({*new} - {(taint.key, taint.effect) for taint in known})
    again = a_node(taints=(*known, *added))
    assert get_missing_taints(claim, again) == ()


def test_uninitialized_reason_is_the_first_unmet_condition() -> None:
    booting = Taint("booting", TaintEffect.NO_SCHEDULE)
    claim = a_claim(startup_taints=(booting,), requests=Resources({"cpu": 1, "gpu": 1, "unused": 0}))
    starting = Taint("node.kubernetes.io/not-ready", TaintEffect.NO_EXECUTE)
    cpu = Resources({"cpu": 4})
    steps = [
        (),
        (a_node(conditions=FrozenDict(), taints=(booting, starting)),),
        (a_node(taints=(booting, starting)),),
        (a_node(taints=(starting,)),),
        (a_node(allocatable=cpu),),
        (a_node(allocatable=cpu + {"gpu": 1}),),
    ]

    reasons = [get_uninitialized_reason(claim, nodes) for nodes in steps]

    assert [reason and reason.reason for reason in reasons] == [
        "NodeNotFound",
        "NodeNotReady",
        "StartupTaintsExist",
        "KnownEphemeralTaintsExist",
        "ResourceNotRegistered",
        None,
    ]


def test_launch_timeout_is_five_and_registration_timeout_fifteen_minutes() -> None:
    waiting = a_claim()
    result = set_claim_condition(a_claim(), NINE, LAUNCHED, TRUE)
    done = set_claim_condition(result, NINE, REGISTERED, TRUE)

    assert check_timeouts(waiting, NINE, USUAL) == NINE + 5 * MINUTE
    assert check_timeouts(waiting, NINE + 5 * MINUTE, USUAL) == TimedOut("launch_timeout")
    assert check_timeouts(result, NINE, USUAL) == NINE + 15 * MINUTE
    assert check_timeouts(result, NINE + 15 * MINUTE, USUAL) == TimedOut("registration_timeout")
    assert check_timeouts(done, NINE + 999 * MINUTE, USUAL) is None


@given(st.timedeltas(min_value=timedelta(), max_value=timedelta(hours=2)))
def test_claim_is_timed_out_at_the_returned_time(waited: timedelta) -> None:
    timeout = check_timeouts(a_claim(), NINE + waited, USUAL)

    if isinstance(timeout, datetime):
        assert timeout > NINE + waited
        assert check_timeouts(a_claim(), timeout, USUAL) == TimedOut("launch_timeout")
    else:
        assert timeout == TimedOut("launch_timeout")


def test_claim_expires_after_its_lifetime() -> None:
    assert get_expiration_time(a_claim(expire_after=MINUTE)) == NINE + MINUTE
    assert get_expiration_time(a_claim(expire_after=None)) is None


def test_drain_deadline_is_set_once_and_only_with_a_termination_grace_period() -> None:
    going = {"deleted_at": NINE, "termination_grace_period": MINUTE}
    noted = FrozenDict({label_keys.TERMINATION_TIMESTAMP: "2026-01-01T08:00:00Z"})

    assert get_new_drain_deadline(a_claim(**going)) == NINE + MINUTE
    assert get_new_drain_deadline(a_claim(**going, annotations=noted)) is None
    assert get_new_drain_deadline(a_claim(deleted_at=NINE)) is None


def test_poll_interval_of_a_terminating_instance_grows() -> None:
    claim = set_claim_condition(a_claim(), NINE, "InstanceTerminating", TRUE)
    at, polls = NINE, [0.0]

    while len(polls) < 6:
        at += get_termination_poll_interval(claim, at)
        polls.append((at - NINE).total_seconds())

    assert polls == [0, 1, 3, 8, 13, 18]


@pytest.mark.parametrize(
    "other",
    [
        Taint("example.com/other", UNREGISTERED_TAINT.effect),
        Taint(UNREGISTERED_TAINT.key, TaintEffect.NO_SCHEDULE),
    ],
)
def test_a_taint_with_another_key_or_effect_is_not_the_unregistered_taint(other: Taint) -> None:
    assert lacks_unregistered_taint(a_node(taints=(other,)))
    assert not lacks_unregistered_taint(a_node(taints=(other, UNREGISTERED_TAINT)))
