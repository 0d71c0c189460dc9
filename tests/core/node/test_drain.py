"""Properties of drains, for generated pods."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.node.drain import (
    LONG_DRAIN_TIME,
    SHORT_DRAIN_TIME,
    DrainStatus,
    EvictionAction,
    choose_eviction_action,
    get_force_time,
    get_forced_grace_seconds,
    get_min_drain_time,
    plan_drain,
)
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.pod import OwnerReference, Pod, PodPhase
from tests.support.simulator.api_server import START

NOW = START
_seconds = st.integers(-400, 400)


@st.composite
def pods(draw: st.DrawFn) -> list[Pod]:
    return [_pod(draw, number) for number in range(draw(st.integers(0, 8)))]


def _pod(draw: st.DrawFn, number: int) -> Pod:
    kind = draw(st.sampled_from(["", "DaemonSet", "ReplicaSet", "Node"]))
    ends = draw(st.none() | _seconds)
    protected = draw(st.booleans())
    return Pod(
        name=f"pod-{number}",
        uid=f"u{number}",
        owner=OwnerReference("apps/v1", kind, "owner") if kind else None,
        phase=draw(st.sampled_from([PodPhase.RUNNING, PodPhase.PENDING, PodPhase.SUCCEEDED])),
        deleting=ends is not None,
        deleted_at=None if ends is None else NOW + timedelta(seconds=ends),
        termination_grace_period_seconds=draw(st.none() | st.integers(0, 300)),
        priority_class=draw(st.sampled_from(["", "system-node-critical"])),
        annotations=FrozenDict({label_keys.DO_NOT_DISRUPT: "true"} if protected else {}),
    )


deadlines = st.none() | _seconds.map(lambda seconds: NOW + timedelta(seconds=seconds))


@given(pods(), deadlines)
def test_evicted_pods_are_among_the_remaining_ones_and_there_is_always_one(
    there: list[Pod], deadline: None
) -> None:
    status = plan_drain(there, deadline=deadline, now=NOW)

    assert set(status.to_evict) <= set(status.remaining)
    active = [pod for pod in status.remaining if not pod.deleting]
    going = [pod for pod in status.remaining if pod.deleting]
    assert status.to_evict or going or not active


@given(pods(), deadlines)
def test_no_pod_is_evicted_while_a_lower_tier_remains(there: list[Pod], deadline: None) -> None:
    status = plan_drain(there, deadline=deadline, now=NOW)

    graceful = [
        pod
        for pod in status.to_evict
        if choose_eviction_action(pod, deadline, NOW) is not EvictionAction.DELETE
    ]
    left = [
        pod
        for pod in status.remaining
        if choose_eviction_action(pod, deadline, NOW) is not EvictionAction.DELETE
    ]
    tiers = {(pod.priority_class != "", pod.is_owned_by_daemon_set) for pod in graceful}
    assert len(tiers) <= 1
    assert all(
        tier == min((p.priority_class != "", p.is_owned_by_daemon_set) for p in left) for tier in tiers
    )


@given(pods(), deadlines)
def test_drain_status_does_not_change_before_changes_at(there: list[Pod], deadline: None) -> None:
    status = plan_drain(there, deadline=deadline, now=NOW)
    if status.changes_at is None:
        return

    assert status.changes_at > NOW
    just_before = max(NOW, status.changes_at - timedelta(microseconds=2))
    later = plan_drain(there, deadline=deadline, now=just_before)
    assert {pod.uid for pod in later.remaining} == {pod.uid for pod in status.remaining}


@given(pods(), _seconds)
def test_after_a_forced_deletion_a_pod_is_not_deleted_again(there: list[Pod], until: int) -> None:
    deadline = NOW + timedelta(seconds=until)

    for pod in there:
        if choose_eviction_action(pod, deadline, NOW) is EvictionAction.DELETE:
            grace = get_forced_grace_seconds(deadline, NOW)
            gone_by = NOW + timedelta(seconds=grace)
            hurried = Pod(name=pod.name, deleting=True, deleted_at=gone_by, phase=pod.phase)
            assert grace >= 1
            assert get_force_time(hurried, deadline, NOW) is None


@given(pods())
def test_without_a_deadline_no_pod_is_deleted_by_force(there: list[Pod]) -> None:
    assert all(choose_eviction_action(pod, None, NOW) is not EvictionAction.DELETE for pod in there)


def test_an_empty_node_is_drained() -> None:
    assert plan_drain([], deadline=None, now=NOW) == DrainStatus()


def test_a_running_pod_is_evicted_and_a_terminating_one_is_left_alone() -> None:
    running = Pod(name="runs", uid="1", phase=PodPhase.RUNNING)
    terminating = Pod(name="ends", uid="2", phase=PodPhase.RUNNING, deleting=True, deleted_at=NOW)

    assert choose_eviction_action(running, None, NOW) is EvictionAction.EVICT
    assert choose_eviction_action(terminating, None, NOW) is EvictionAction.NONE


def min_drain_time(
    since_pod_event: timedelta | None = None, *, had_pods: bool = False, has_pending_pods: bool = False
) -> timedelta:
    event = None if since_pod_event is None else NOW - since_pod_event
    claim = NodeClaim(name="claim", last_pod_event=event)
    return get_min_drain_time(claim, had_pods=had_pods, has_pending_pods=has_pending_pods, now=NOW)


def test_the_drain_is_longer_while_a_pod_may_be_binding_to_the_node() -> None:
    assert min_drain_time() == SHORT_DRAIN_TIME
    assert min_drain_time(had_pods=True) == LONG_DRAIN_TIME
    assert min_drain_time(has_pending_pods=True) == LONG_DRAIN_TIME
    assert min_drain_time(LONG_DRAIN_TIME - timedelta(milliseconds=1)) == LONG_DRAIN_TIME
    assert min_drain_time(LONG_DRAIN_TIME) == SHORT_DRAIN_TIME
