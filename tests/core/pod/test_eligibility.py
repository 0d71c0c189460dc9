"""What may be done to a pod.

DD1, DD2, DD3, DD4, DD5, DD6, DD7, DD8, DD9, DD10, PD1, PD2, PD3, PD4, PD5, PD6.
"""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.pod.eligibility import (
    blocking_budget,
    is_active,
    is_currently_reschedulable,
    is_drainable,
    is_evictable,
    is_reschedulable,
    protection,
    remark_on,
)
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Owner, Phase, Pod
from dovetail.model.kube.workloads import DisruptionBudget
from tests.support.cluster import START

NOW = START


def a_pod(annotation: str | None = None, *, owner: str = "", **fields: Any) -> Pod:
    known = {} if annotation is None else {label_keys.DO_NOT_DISRUPT: annotation}
    return Pod(
        name="pod",
        annotations=FrozenDict(known),
        owner=Owner("apps/v1", owner, "web") if owner else None,
        phase=fields.pop("phase", Phase.RUNNING),
        **fields,
    )


def a_budget(**fields: Any) -> DisruptionBudget:
    return DisruptionBudget(namespace="default", name="budget", **fields)


def test_a_pod_without_the_annotation_is_not_protected() -> None:
    assert not protection(a_pod(), NOW).active
    assert remark_on(a_pod(), NOW) is None


def test_true_protects_for_ever_and_needs_no_remark() -> None:
    pod = a_pod("true", started=NOW - timedelta(days=1000))

    assert protection(pod, NOW).active
    assert remark_on(pod, NOW) is None


@pytest.mark.parametrize(
    "value",
    ["", "false", "True", "yes", "1d", "1h 30m", "h", "1", "0", "0s", "-5m", "-0.5h", "1e3s"],
)
def test_what_is_no_positive_duration_protects_nobody_and_is_remarked_upon(value: str) -> None:
    pod = a_pod(value, started=NOW)

    remark = remark_on(pod, NOW)

    assert not protection(pod, NOW).active
    assert remark is not None
    assert (remark.reason, remark.warning) == ("InvalidDoNotDisruptAnnotation", True)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("90s", 90), ("1h30m", 5400), ("1.5h", 5400), ("+2m", 120), ("1500ms", 1.5), (".5s", 0.5)],
)
def test_a_duration_protects_for_so_long_after_the_start(value: str, seconds: float) -> None:
    pod = a_pod(value, started=NOW)
    end = NOW + timedelta(seconds=seconds)
    just_before = end - timedelta(microseconds=1)

    assert protection(pod, just_before).active
    assert not protection(pod, end).active
    before, after = remark_on(pod, just_before), remark_on(pod, end)
    assert before is not None
    assert after is not None
    assert (before.reason, before.warning) == ("DoNotDisruptUntil", False)
    assert (after.reason, after.warning) == ("DoNotDisruptGracePeriodElapsed", False)


def test_a_duration_protects_a_pod_that_has_not_started() -> None:
    assert protection(a_pod("5m"), NOW).active


@given(st.text(max_size=12))
def test_no_annotation_is_too_odd_to_be_read(value: str) -> None:
    found = protection(a_pod(value, started=NOW), NOW)

    assert found.active is (not found.mistake)


@given(st.integers(0, 10_000), st.integers(0, 59), st.integers(0, 59))
def test_durations_add_up(hours: int, minutes: int, seconds: int) -> None:
    pod = a_pod(f"{hours}h{minutes}m{seconds}s", started=NOW)

    span = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    expected = NOW + span if span else None
    assert protection(pod, NOW).until == expected


@pytest.mark.parametrize("gone", [{"phase": Phase.SUCCEEDED}, {"deleting": True}])
def test_a_pod_that_ended_or_is_going_is_beyond_protection(gone: dict[str, Any]) -> None:
    pod = a_pod("true", **gone)

    assert not is_active(pod)
    assert not is_evictable(pod, NOW)
    assert blocking_budget(pod, [a_budget(allowed=0)], NOW) == ()


@pytest.mark.parametrize("owner", ["DaemonSet", "Node"])
def test_pods_that_come_with_a_node_ask_for_no_other(owner: str) -> None:
    assert not is_reschedulable(a_pod(owner=owner))


def test_of_the_pods_that_are_going_only_those_of_stateful_sets_are_spoken_for() -> None:
    assert is_reschedulable(a_pod(owner="StatefulSet", deleting=True))
    assert not is_reschedulable(a_pod(owner="ReplicaSet", deleting=True))


def test_a_pod_is_given_up_a_minute_after_it_should_have_gone() -> None:
    pod = a_pod(deleting=True, deleted_at=NOW)

    assert is_drainable(pod, NOW + timedelta(seconds=60))
    assert not is_drainable(pod, NOW + timedelta(seconds=61))


def test_a_budget_that_allows_unhealthy_pods_to_go_does_not_keep_one() -> None:
    lenient = a_budget(allowed=0, always_allow_unhealthy=True)

    assert blocking_budget(a_pod(ready=False), [lenient], NOW) == ()
    assert blocking_budget(a_pod(ready=True), [lenient], NOW) == (lenient,)


def test_without_that_an_unhealthy_pod_is_kept_like_any_other() -> None:
    strict = a_budget(allowed=0)

    assert blocking_budget(a_pod(ready=False), [strict], NOW) == (strict,)


def test_no_budget_keeps_nobody() -> None:
    assert blocking_budget(a_pod(), [], NOW) == ()


def test_a_budget_with_room_keeps_nobody() -> None:
    assert blocking_budget(a_pod(), [a_budget(allowed=1)], NOW) == ()


def test_two_budgets_keep_a_pod_whatever_they_allow() -> None:
    both = (a_budget(allowed=5), a_budget(allowed=5))

    assert blocking_budget(a_pod(), both, NOW) == both
    assert not is_currently_reschedulable(a_pod(), both, NOW)


@pytest.mark.parametrize(
    "rule", [{"max_unavailable": "0"}, {"max_unavailable": "0%"}, {"min_available": "100%"}]
)
def test_pods_behind_a_budget_that_never_gives_are_not_expected_elsewhere(
    rule: dict[str, str],
) -> None:
    assert not is_currently_reschedulable(a_pod(), [a_budget(**rule)], NOW)
    lenient = a_budget(**rule, always_allow_unhealthy=True)
    assert is_currently_reschedulable(a_pod(ready=False), [lenient], NOW)


def test_pods_behind_a_budget_that_is_used_up_for_now_are_expected_elsewhere() -> None:
    used_up = a_budget(min_available="50%", allowed=0)

    assert is_currently_reschedulable(a_pod(), [used_up], NOW)


def test_protected_pods_are_not_expected_elsewhere() -> None:
    assert not is_currently_reschedulable(a_pod("true"), [], NOW)
    assert not is_currently_reschedulable(a_pod("5m", started=NOW), [], NOW)
    assert is_currently_reschedulable(a_pod("5m", started=NOW), [], NOW + timedelta(minutes=6))
