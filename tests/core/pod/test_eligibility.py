"""Pod predicates for disruption and drain.

DD1, DD2, DD3, DD4, DD5, DD6, DD7, DD8, DD9, DD10, PD1, PD2, PD3, PD4, PD5, PD6.
"""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.pod.eligibility import (
    create_protection_event,
    get_blocking_pdbs,
    get_protection,
    is_active,
    is_currently_reschedulable,
    is_drainable,
    is_evictable,
    is_reschedulable,
)
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import OwnerReference, Pod, PodPhase
from dovetail.model.kube.workloads import PodDisruptionBudget
from tests.support.simulator.api_server import START

NOW = START


def a_pod(annotation: str | None = None, *, owner: str = "", **fields: Any) -> Pod:
    annotations = {} if annotation is None else {label_keys.DO_NOT_DISRUPT: annotation}
    return Pod(
        name="pod",
        annotations=FrozenDict(annotations),
        owner=OwnerReference("apps/v1", owner, "web") if owner else None,
        phase=fields.pop("phase", PodPhase.RUNNING),
        **fields,
    )


def a_budget(**fields: Any) -> PodDisruptionBudget:
    return PodDisruptionBudget(namespace="default", name="budget", **fields)


def test_a_pod_without_the_annotation_is_not_protected() -> None:
    assert not get_protection(a_pod(), NOW).active
    assert create_protection_event(a_pod(), NOW) is None


def test_true_protects_for_ever_without_an_event() -> None:
    pod = a_pod("true", start_time=NOW - timedelta(days=1000))

    assert get_protection(pod, NOW).active
    assert create_protection_event(pod, NOW) is None


@pytest.mark.parametrize(
    "value", ["", "false", "True", "yes", "1d", "1h 30m", "h", "1", "0", "0s", "-5m", "-0.5h", "1e3s"]
)
def test_invalid_duration_does_not_protect_and_gives_an_event(value: str) -> None:
    pod = a_pod(value, start_time=NOW)

    event = create_protection_event(pod, NOW)

    assert not get_protection(pod, NOW).active
    assert event is not None
    assert (event.reason, event.warning) == ("InvalidDoNotDisruptAnnotation", True)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("90s", 90),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("+2m", 120),
        ("1500ms", 1.5),
        (".5s", 0.5),
        ("700us", 7e-4),
        ("8000ns", 8e-6),
    ],
)
def test_duration_protects_from_the_start_of_the_pod(value: str, seconds: float) -> None:
    pod = a_pod(value, start_time=NOW)
    end = NOW + timedelta(seconds=seconds)
    just_before = end - timedelta(microseconds=1)

    assert get_protection(pod, just_before).active
    assert not get_protection(pod, end).active
    before, after = create_protection_event(pod, just_before), create_protection_event(pod, end)
    assert before is not None
    assert after is not None
    assert (before.reason, before.warning) == ("DoNotDisruptUntil", False)
    assert (after.reason, after.warning) == ("DoNotDisruptGracePeriodElapsed", False)


def test_a_duration_protects_a_pod_that_has_not_started() -> None:
    assert get_protection(a_pod("5m"), NOW).active


@given(st.text(max_size=12))
def test_any_annotation_value_can_be_decoded(value: str) -> None:
    protection = get_protection(a_pod(value, start_time=NOW), NOW)

    assert protection.active is (not protection.invalid_value)


@given(st.integers(0, 10_000), st.integers(0, 59), st.integers(0, 59))
def test_durations_add_up(hours: int, minutes: int, seconds: int) -> None:
    pod = a_pod(f"{hours}h{minutes}m{seconds}s", start_time=NOW)

    span = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    expected = NOW + span if span else None
    assert get_protection(pod, NOW).until == expected


@pytest.mark.parametrize("gone", [{"phase": PodPhase.SUCCEEDED}, {"deleting": True}])
def test_terminal_and_deleting_pods_are_not_active(gone: dict[str, Any]) -> None:
    pod = a_pod("true", **gone)

    assert not is_active(pod)
    assert not is_evictable(pod, NOW)
    assert get_blocking_pdbs(pod, [a_budget(disruptions_allowed=0)], NOW) == ()


@pytest.mark.parametrize("owner", ["DaemonSet", "Node"])
def test_daemonset_and_static_pods_are_not_rescheduled(owner: str) -> None:
    assert not is_reschedulable(a_pod(owner=owner))
    assert not is_currently_reschedulable(a_pod(owner=owner), [], NOW)


def test_of_deleting_pods_only_those_of_statefulsets_are_rescheduled() -> None:
    assert is_reschedulable(a_pod(owner="StatefulSet", deleting=True))
    assert not is_reschedulable(a_pod(owner="ReplicaSet", deleting=True))


def test_pod_is_stuck_a_minute_after_its_deletion_time() -> None:
    pod = a_pod(deleting=True, deleted_at=NOW)

    assert is_drainable(pod, NOW + timedelta(seconds=60))
    assert not is_drainable(pod, NOW + timedelta(seconds=61))


def test_pdb_that_always_allows_unhealthy_pods_does_not_block_one() -> None:
    lenient = a_budget(disruptions_allowed=0, always_allow_unhealthy=True)

    assert get_blocking_pdbs(a_pod(ready=False), [lenient], NOW) == ()
    assert get_blocking_pdbs(a_pod(ready=True), [lenient], NOW) == (lenient,)


def test_other_pdbs_block_unhealthy_pods() -> None:
    strict = a_budget(disruptions_allowed=0)

    assert get_blocking_pdbs(a_pod(ready=False), [strict], NOW) == (strict,)


def test_pod_without_pdb_is_not_blocked() -> None:
    assert get_blocking_pdbs(a_pod(), [], NOW) == ()


def test_pdb_with_allowed_disruptions_does_not_block() -> None:
    assert get_blocking_pdbs(a_pod(), [a_budget(disruptions_allowed=1)], NOW) == ()


def test_two_pdbs_block_a_pod_whatever_they_allow() -> None:
    both = (a_budget(disruptions_allowed=5), a_budget(disruptions_allowed=5))

    assert get_blocking_pdbs(a_pod(), both, NOW) == both
    assert not is_currently_reschedulable(a_pod(), both, NOW)


@pytest.mark.parametrize(
    "rule", [{"max_unavailable": "0"}, {"max_unavailable": "0%"}, {"min_available": "100%"}]
)
def test_pods_of_a_fully_blocking_pdb_are_not_rescheduled_soon(rule: dict[str, str]) -> None:
    assert not is_currently_reschedulable(a_pod(), [a_budget(**rule)], NOW)
    lenient = a_budget(**rule, always_allow_unhealthy=True)
    assert is_currently_reschedulable(a_pod(ready=False), [lenient], NOW)


def test_pods_of_an_exhausted_pdb_are_rescheduled_soon() -> None:
    used_up = a_budget(min_available="50%", disruptions_allowed=0)

    assert is_currently_reschedulable(a_pod(), [used_up], NOW)


def test_protected_pods_are_not_rescheduled_soon() -> None:
    assert not is_currently_reschedulable(a_pod("true"), [], NOW)
    assert not is_currently_reschedulable(a_pod("5m", start_time=NOW), [], NOW)
    assert is_currently_reschedulable(a_pod("5m", start_time=NOW), [], NOW + timedelta(minutes=6))
