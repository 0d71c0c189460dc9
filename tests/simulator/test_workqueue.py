"""Work queues and watches on virtual time."""

from datetime import timedelta

from dovetail.ports.api_resources import NODES
from dovetail.simulator.workqueue import WorkQueue, start_watch
from tests.support.simulator.api_server import START, Cluster, a_node

SECOND = timedelta(seconds=1)


class Component:
    """A component with a work queue, which records what it processed and when."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.diary: list[tuple[str, float]] = []
        self.queue: WorkQueue[str] = WorkQueue(self.cluster.clock, self.look)

    def look(self, key: str) -> None:
        self.diary.append((key, (self.cluster.clock.now() - START).total_seconds()))


def test_a_key_is_processed_once_however_often_it_is_added() -> None:
    component = Component()

    for _ in range(3):
        component.queue.add("a")
    inside = list(component.diary)
    component.cluster.wait(1)

    assert inside == []
    assert component.diary == [("a", 0)]


def test_the_earlier_of_two_due_times_counts() -> None:
    component = Component()

    component.queue.add("a", after=5 * SECOND)
    component.queue.add("a", after=9 * SECOND)
    component.queue.add("a", after=2 * SECOND)
    due = component.queue.due("a")
    component.cluster.wait(20)

    assert due == START + 2 * SECOND
    assert component.diary == [("a", 2)]


def test_a_key_can_be_added_again_while_it_is_processed() -> None:
    component = Component()
    queue: WorkQueue[str] = WorkQueue(component.cluster.clock, lambda key: again(key))

    def again(key: str) -> None:
        component.look(key)
        if len(component.diary) < 3:
            queue.add(key, after=SECOND)

    queue.add("a")
    component.cluster.wait(10)

    assert component.diary == [("a", 0), ("a", 1), ("a", 2)]


def test_a_discarded_key_is_not_processed() -> None:
    component = Component()
    component.queue.add("a", after=SECOND)

    component.queue.discard("a")
    component.queue.discard("never asked for")
    component.cluster.wait(5)

    assert component.diary == []
    assert component.queue.due("a") is None


def test_a_watch_delivers_existing_objects_and_every_change_after_the_write_has_returned() -> None:
    cluster = Cluster()
    events: list[tuple[str, str]] = []
    cluster.create(NODES, a_node("before"))
    stop = start_watch(
        cluster,
        cluster.clock,
        NODES,
        lambda event: events.append((event.type.value, event.object["metadata"]["name"])),
    )

    inside = list(events)
    cluster.create(NODES, a_node("after"))
    inside += events
    cluster.wait(0)
    cluster.delete(NODES, "before")
    cluster.wait(0)
    stop()
    cluster.delete(NODES, "after")
    cluster.wait(0)

    assert inside == []
    assert events == [("ADDED", "before"), ("ADDED", "after"), ("DELETED", "before")]


def test_a_stopped_watch_delivers_no_pending_events() -> None:
    cluster = Cluster()
    events: list[object] = []
    stop = start_watch(cluster, cluster.clock, NODES, events.append)

    cluster.create(NODES, a_node("n"))
    stop()
    cluster.wait(1)

    assert events == []
