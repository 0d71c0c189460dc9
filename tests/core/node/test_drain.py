"""Laws of draining, whatever the pods: tested pure, many at a time."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.node.drain import Drain, Way, drain, force_at, force_grace, way
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Owner, Phase, Pod
from tests.support.cluster import START

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
        owner=Owner("apps/v1", kind, "owner") if kind else None,
        phase=draw(st.sampled_from([Phase.RUNNING, Phase.PENDING, Phase.SUCCEEDED])),
        deleting=ends is not None,
        deleted_at=None if ends is None else NOW + timedelta(seconds=ends),
        grace_seconds=draw(st.none() | st.integers(0, 300)),
        priority_class=draw(st.sampled_from(["", "system-node-critical"])),
        annotations=FrozenDict({label_keys.DO_NOT_DISRUPT: "true"} if protected else {}),
    )


deadlines = st.none() | _seconds.map(lambda seconds: NOW + timedelta(seconds=seconds))


@given(pods(), deadlines)
def test_only_those_who_are_waited_for_are_asked_and_somebody_always_is(
    there: list[Pod], deadline: None
) -> None:
    found = drain(there, deadline=deadline, now=NOW)

    assert set(found.turn) <= set(found.waiting)
    active = [pod for pod in found.waiting if not pod.deleting]
    going = [pod for pod in found.waiting if pod.deleting]
    assert found.turn or going or not active


@given(pods(), deadlines)
def test_nobody_is_asked_gracefully_while_a_lower_tier_is_there(
    there: list[Pod], deadline: None
) -> None:
    found = drain(there, deadline=deadline, now=NOW)

    graceful = [pod for pod in found.turn if way(pod, deadline, NOW) is not Way.FORCE]
    left = [pod for pod in found.waiting if way(pod, deadline, NOW) is not Way.FORCE]
    tiers = {(pod.priority_class != "", pod.of_daemon_set) for pod in graceful}
    assert len(tiers) <= 1
    assert all(
        tier == min((p.priority_class != "", p.of_daemon_set) for p in left) for tier in tiers
    )


@given(pods(), deadlines)
def test_nothing_changes_before_it_is_said_to(there: list[Pod], deadline: None) -> None:
    found = drain(there, deadline=deadline, now=NOW)
    if found.changes_at is None:
        return

    assert found.changes_at > NOW
    just_before = max(NOW, found.changes_at - timedelta(microseconds=2))
    later = drain(there, deadline=deadline, now=just_before)
    assert {pod.uid for pod in later.waiting} == {pod.uid for pod in found.waiting}


@given(pods(), _seconds)
def test_after_a_forced_deletion_a_pod_is_not_deleted_again(there: list[Pod], until: int) -> None:
    deadline = NOW + timedelta(seconds=until)

    for pod in there:
        if way(pod, deadline, NOW) is Way.FORCE:
            grace = force_grace(deadline, NOW)
            gone_by = NOW + timedelta(seconds=grace)
            hurried = Pod(name=pod.name, deleting=True, deleted_at=gone_by, phase=pod.phase)
            assert grace >= 1
            assert force_at(hurried, deadline, NOW) is None


@given(pods())
def test_without_a_deadline_nobody_is_made_to_go(there: list[Pod]) -> None:
    assert all(way(pod, None, NOW) is not Way.FORCE for pod in there)


def test_an_empty_node_is_drained() -> None:
    assert drain([], deadline=None, now=NOW) == Drain()
