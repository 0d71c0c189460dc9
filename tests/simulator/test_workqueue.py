"""How simulated actors are told of changes and keep appointments."""

from datetime import timedelta

from dovetail.ports.api_resources import NODES
from dovetail.simulator.workqueue import Desk, follow
from tests.support.cluster import START, Cluster, a_node

SECOND = timedelta(seconds=1)


class Actor:
    """Somebody with a desk, who notes what was looked at and when."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.diary: list[tuple[str, float]] = []
        self.desk: Desk[str] = Desk(self.cluster.engine, self.look)

    def look(self, key: str) -> None:
        self.diary.append((key, (self.cluster.engine.now() - START).total_seconds()))


def test_a_key_is_looked_at_once_however_often_it_is_asked_for() -> None:
    actor = Actor()

    for _ in range(3):
        actor.desk.ask("a")
    inside = list(actor.diary)
    actor.cluster.wait(1)

    assert inside == []
    assert actor.diary == [("a", 0)]


def test_an_earlier_appointment_stands_and_a_later_one_moves_up() -> None:
    actor = Actor()

    actor.desk.ask("a", after=5 * SECOND)
    actor.desk.ask("a", after=9 * SECOND)
    actor.desk.ask("a", after=2 * SECOND)
    due = actor.desk.due("a")
    actor.cluster.wait(20)

    assert due == START + 2 * SECOND
    assert actor.diary == [("a", 2)]


def test_a_key_may_be_asked_for_again_while_it_is_looked_at() -> None:
    actor = Actor()
    desk: Desk[str] = Desk(actor.cluster.engine, lambda key: again(key))

    def again(key: str) -> None:
        actor.look(key)
        if len(actor.diary) < 3:
            desk.ask(key, after=SECOND)

    desk.ask("a")
    actor.cluster.wait(10)

    assert actor.diary == [("a", 0), ("a", 1), ("a", 2)]


def test_what_is_forgotten_is_not_looked_at() -> None:
    actor = Actor()
    actor.desk.ask("a", after=SECOND)

    actor.desk.forget("a")
    actor.desk.forget("never asked for")
    actor.cluster.wait(5)

    assert actor.diary == []
    assert actor.desk.due("a") is None


def test_a_follower_hears_what_is_there_and_every_change_after_the_write_has_returned() -> None:
    cluster = Cluster()
    heard: list[tuple[str, str]] = []
    cluster.create(NODES, a_node("before"))
    stop = follow(
        cluster,
        cluster.engine,
        NODES,
        lambda event: heard.append((event.type.value, event.object["metadata"]["name"])),
    )

    inside = list(heard)
    cluster.create(NODES, a_node("after"))
    inside += heard
    cluster.wait(0)
    cluster.delete(NODES, "before")
    cluster.wait(0)
    stop()
    cluster.delete(NODES, "after")
    cluster.wait(0)

    assert inside == []
    assert heard == [("ADDED", "before"), ("ADDED", "after"), ("DELETED", "before")]


def test_what_was_under_way_to_a_follower_who_stopped_is_not_told() -> None:
    cluster = Cluster()
    heard: list[object] = []
    stop = follow(cluster, cluster.engine, NODES, heard.append)

    cluster.create(NODES, a_node("n"))
    stop()
    cluster.wait(1)

    assert heard == []
