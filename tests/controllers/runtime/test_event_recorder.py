"""Events are told once in a while, and never too many at once: VT1."""

from datetime import timedelta
from typing import Any

from dovetail.controllers.runtime.event_recorder import Recorder
from dovetail.ports.api_resources import EVENTS, NODE_CLAIMS, NODES, PODS
from dovetail.simulator.randomness import SeededChance
from tests.support.world import World


class Telling(World):
    def __init__(self) -> None:
        super().__init__()
        self.recorder = Recorder(
            kube=self.kube, loop=self.loop, chance=SeededChance(1), log=self.log
        )

    def tell(self, name: str = "a", reason: str = "Happened", **more: Any) -> None:
        resource = more.pop("resource", NODES)
        self.recorder.publish(resource, name, reason=reason, **{"message": "it did", **more})

    def written(self) -> list[Any]:
        return list(self.api.list(EVENTS).items)


def test_an_event_says_who_what_and_when() -> None:
    world = Telling()

    world.recorder.publish(
        PODS, "web", namespace="shop", uid="u1", reason="Evicted", message="gone", warning=True
    )
    world.recorder.publish(
        PODS, "web", namespace="default", uid="u2", reason="Evicted", message="gone", warning=True
    )

    (event,) = world.written()  # There is no namespace "shop": that one is lost.
    assert event["metadata"]["namespace"] == "default"
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "web",
        "namespace": "default",
        "uid": "u2",
    }
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "Evicted", "gone")
    assert event["source"] == {"component": "karpenter"}
    assert event["firstTimestamp"] == "2026-01-01T09:00:00Z"
    assert len(world.log.said("event lost")) == 1


def test_the_same_is_told_again_only_after_two_minutes() -> None:
    world = Telling()

    for _ in range(5):
        world.tell()
        world.wait(40)

    assert len(world.written()) == 2


def test_how_long_the_same_is_kept_back_may_be_said() -> None:
    world = Telling()

    for _ in range(5):
        world.tell(dedupe=timedelta(minutes=1))
        world.wait(40)

    assert len(world.written()) == 3


def test_other_objects_reasons_and_messages_are_told_apart() -> None:
    world = Telling()

    world.tell()
    world.tell("b")
    world.tell(reason="Other")
    world.tell(message="it did not")
    world.tell(resource=NODE_CLAIMS)

    assert len(world.written()) == 5


def test_what_counts_as_the_same_may_be_said() -> None:
    world = Telling()

    world.tell(message="on n1", same=("uid",))
    world.tell(message="on n2", same=("uid",))

    assert [event["message"] for event in world.written()] == ["on n1"]


def test_of_thousands_of_nominations_ten_are_told_and_then_five_a_second() -> None:
    world = Telling()

    for number in range(1000):
        world.tell(f"pod-{number}", reason="Nominated")
    burst = len(world.written())
    world.wait(1)
    for number in range(1000, 2000):
        world.tell(f"pod-{number}", reason="Nominated")

    assert burst == 10
    assert len(world.written()) == 15


def test_two_thousand_nodes_that_stay_are_told_so_a_few_hundred_at_a_time() -> None:
    world = Telling()
    told = []

    for _ in range(5):
        for number in range(2000):
            world.tell(f"node-{number}", reason="Unconsolidatable", dedupe=timedelta(minutes=45))
        told.append(len(world.written()))
        world.wait(300)

    assert told == [500, 1000, 1500, 2000, 2000]


def test_of_one_object_twenty_five_events_are_told_and_then_one_in_five_minutes() -> None:
    world = Telling()

    for number in range(100):
        world.tell("chatty", message=f"tried {number} times")
    world.tell("quiet")
    at_once = len(world.written())
    world.wait(600)
    for number in range(100):
        world.tell("chatty", message=f"still {number}")

    assert at_once == 25 + 1
    assert len(world.written()) == at_once + 2
