"""Scheduling retries: pods without a node are considered at growing intervals if that is expensive."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from dovetail.core.scheduling.work import complexity_reason
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import Plan, UnschedulablePod, UnschedulableReason
from dovetail.model.snapshot import ClusterSnapshot
from dovetail.state.pods.scheduling_retries import SLOW_STEPS, SchedulingRetries
from tests.support.scheduling.builders import a_node, a_pod, a_pool, affinity, cluster
from tests.support.scheduling.instance_types import incremental

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ORDINARY = a_pod("ordinary")
COMPLEX = a_pod("complex", anti_affinity=[affinity({"app": str(number)}) for number in range(100)])
SNAPSHOT = cluster([ORDINARY, COMPLEX], nodes=[a_node("node")])


def failed(*pods: Pod, steps: int = 0, reasons: tuple[UnschedulableReason, ...] = ()) -> Plan:
    return Plan(unschedulable=tuple(UnschedulablePod(pod, reasons) for pod in pods), steps=steps)


def waits(retries: SchedulingRetries, pod: Pod, since: datetime) -> float:
    """Return the seconds until a pod is considered again."""
    seconds = 0
    while pod in retries.select([pod], since + timedelta(seconds=seconds)).waiting:
        seconds += 1
    return seconds


def after_failures(count: int, pod: Pod, *, steps: int = 0) -> tuple[SchedulingRetries, datetime]:
    retries, now = SchedulingRetries(), NOW
    retries.observe(SNAPSHOT)
    for number in range(count):
        if number:
            now += timedelta(seconds=waits(retries, pod, now))
        retries.record(failed(pod, steps=steps), now)
    return retries, now


def test_complex_pods_are_selected_apart_from_others() -> None:
    selection = SchedulingRetries().select([ORDINARY, COMPLEX], NOW)

    assert selection.ordinary == (ORDINARY,)
    assert selection.isolated == (COMPLEX,)


def test_pod_that_needed_too_many_steps_is_isolated_until_it_changes() -> None:
    retries, reasons = SchedulingRetries(), (complexity_reason(ORDINARY.spec),)
    retries.record(failed(ORDINARY, reasons=reasons), NOW)
    changed = replace(ORDINARY, spec=COMPLEX.spec)

    at_once = retries.select([ORDINARY], NOW)
    later = retries.select([ORDINARY], NOW + timedelta(minutes=1))

    assert at_once.waiting == (ORDINARY,)
    assert later.isolated == (ORDINARY,)
    assert retries.select([replace(changed, spec=a_pod("ordinary", cpu="2").spec)], NOW).ordinary


def test_complex_pod_without_a_node_waits_longer_each_time() -> None:
    intervals = []
    for count in range(1, 8):
        retries, now = after_failures(count, COMPLEX)
        intervals.append(waits(retries, COMPLEX, now))

    assert intervals == [10, 20, 40, 80, 160, 300, 300]


def test_ordinary_pod_without_a_node_is_considered_in_every_cheap_pass() -> None:
    retries, now = after_failures(5, ORDINARY)

    assert waits(retries, ORDINARY, now) == 0
    assert not retries.get_last_passes()


def test_ordinary_pod_waits_and_comes_last_after_an_expensive_pass() -> None:
    retries, now = after_failures(2, ORDINARY, steps=SLOW_STEPS + 1)

    assert waits(retries, ORDINARY, now) == 20
    assert retries.get_last_passes() == {ORDINARY.uid: 2}


def test_changes_that_end_the_interval() -> None:
    changes: dict[str, ClusterSnapshot] = {
        "NodePool": replace(SNAPSHOT, nodepools=(replace(a_pool(), generation=7),)),
        "instance types": cluster([COMPLEX], types=incremental(3), nodes=SNAPSHOT.nodes),
        "node": replace(SNAPSHOT, nodes=(*SNAPSHOT.nodes, a_node("other"))),
        "labels of a node": replace(SNAPSHOT, nodes=(a_node("node", labels={"a": "b"}),)),
    }
    for change, snapshot in changes.items():
        retries, now = after_failures(3, COMPLEX)
        retries.observe(SNAPSHOT)
        before = waits(retries, COMPLEX, now)

        retries.observe(snapshot)

        assert before == 40, change
        assert waits(retries, COMPLEX, now) == 0, change


def test_change_of_the_pod_ends_its_interval() -> None:
    retries, now = after_failures(3, COMPLEX)
    changed = replace(COMPLEX, spec=replace(COMPLEX.spec, anti_affinity=COMPLEX.spec.anti_affinity[1:]))

    assert waits(retries, changed, now) == 0


def test_change_keeps_the_order_of_the_latest_attempts() -> None:
    """Else complex pods that are never reached could wait for ever in a busy cluster."""
    retries, _ = after_failures(2, COMPLEX)

    retries.observe(replace(SNAPSHOT, nodes=()))

    assert retries.get_last_passes() == {COMPLEX.uid: 2}


def test_pods_that_are_no_longer_pending_are_forgotten() -> None:
    retries, _ = after_failures(2, COMPLEX)

    retries.observe(replace(SNAPSHOT, pending_pods=()))

    assert not retries.get_last_passes()
