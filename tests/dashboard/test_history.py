"""History of totals for the timeline."""

import msgspec

from dovetail.dashboard.history import History, count_evictions
from dovetail.view.document import NodeState, PodView
from tests.dashboard.views import node, view

DRAINING = NodeState.DRAINING


def test_equal_levels_take_two_samples_however_long_they_last() -> None:
    history = History()

    for second in range(100):
        history.record(view(second, price=1.0))

    assert [sample.at % 100_000 for sample in history.samples] == [0, 99_000]


def test_replaced_sample_is_marked_so_that_a_browser_replaces_it_too() -> None:
    history = History()

    changes = [history.record(view(second, price=1.0)) for second in range(3)]

    assert [change.replaces_last for change in changes if change] == [False, False, True]


def test_a_change_of_the_price_is_a_new_sample() -> None:
    history = History()

    for second in range(4):
        history.record(view(second, price=float(second)))

    assert [sample.price for sample in history.samples] == [0, 1, 2, 3]


def test_a_document_of_the_same_instant_is_not_recorded_again() -> None:
    history = History()
    history.record(view(5))

    assert history.record(view(5)) is None


def test_history_is_bounded_and_keeps_its_beginning_and_all_evictions() -> None:
    history = History(max_samples=64)

    for second in range(1000):
        before = node("a", "p", state=DRAINING) if second % 2 else node("a", state=DRAINING)
        history.record(view(second, price=float(second), nodes=(before,)))

    assert len(history.samples) <= 64
    # The first sample of the history lies in its first tenth.
    assert history.samples[0].price < 100
    assert history.samples[-1].price == 999
    # The pod comes back every two seconds, to be evicted again.
    assert sum(sample.evictions for sample in history.samples) == 499


def test_pods_that_leave_a_draining_node_count_as_evicted() -> None:
    before = view(0, nodes=(node("a", "p1", "p2", state=DRAINING),))
    after = view(1, nodes=(node("a", "p2", state=DRAINING),))

    assert count_evictions(before, after) == 1


def test_an_eviction_counts_once_when_the_pod_begins_to_terminate() -> None:
    running = node("a", "p1", state=DRAINING)
    (workload,) = running.workloads
    leaving = msgspec.structs.replace(workload, pods=(PodView(name="p1", deleting=True),))
    deleting = msgspec.structs.replace(running, workloads=(leaving,))

    assert count_evictions(view(0, nodes=(running,)), view(1, nodes=(deleting,))) == 1
    assert count_evictions(view(1, nodes=(deleting,)), view(2, nodes=(node("a", state=DRAINING),))) == 0


def test_pods_of_a_draining_node_that_is_gone_count_as_evicted() -> None:
    assert count_evictions(view(0, nodes=(node("a", "p1", state=DRAINING),)), view(1)) == 1


def test_daemonset_pods_and_pods_of_nodes_that_stay_do_not_count() -> None:
    before = view(0, nodes=(node("a", "p1", state=DRAINING, kind="DaemonSet"), node("b", "p2")))
    after = view(1, nodes=(node("b"),))

    assert count_evictions(before, after) == 0
