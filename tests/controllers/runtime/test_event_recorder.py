"""Events are deduplicated and rate limited: VT1."""

import gc
import sys
from datetime import timedelta
from typing import Any

from dovetail.controllers.event_reasons import NOMINATED, UNCONSOLIDATABLE
from dovetail.controllers.runtime.event_recorder import KubeEventRecorder
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.pod import Pod
from dovetail.model.node import NodeObject
from dovetail.ports.api_resources import EVENTS
from dovetail.ports.telemetry import EventObject, EventReason
from dovetail.simulator.environment import SeededRandomSource
from tests.support.controllers.environment import ControllerEnvironment

HAPPENED = EventReason("Happened")
EVICTED = EventReason("Evicted", is_warning=True)


class RecorderEnvironment(ControllerEnvironment):
    """Environment with an event recorder."""

    def __init__(self) -> None:
        super().__init__()
        self.recorder = KubeEventRecorder(
            kube=self.kube, loop=self.loop, random=SeededRandomSource(1), log=self.log
        )

    def publish(
        self,
        obj: EventObject | str = "a",
        event: EventReason = HAPPENED,
        message: str = "message",
        **more: Any,
    ) -> None:
        target = NodeObject(name=obj) if isinstance(obj, str) else obj
        self.recorder.publish(target, event, message, **more)

    def events_written(self) -> list[Any]:
        return list(self.api.list(EVENTS).items)


def test_an_event_has_object_type_reason_and_times() -> None:
    env = RecorderEnvironment()

    for namespace, uid in (("shop", "u1"), ("default", "u2")):
        env.publish(Pod(name="web", namespace=namespace, uid=uid), EVICTED, "gone")

    (event,) = env.events_written()  # There is no namespace "shop": that Event is lost.
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
    assert len(env.log.entries("event lost")) == 1


def test_an_equal_event_is_published_again_after_two_minutes_only() -> None:
    env = RecorderEnvironment()

    for _ in range(5):
        env.publish()
        env.wait(40)

    assert len(env.events_written()) == 2


def test_a_reason_may_have_its_own_dedupe_timeout() -> None:
    env = RecorderEnvironment()

    for _ in range(5):
        env.publish(event=EventReason("Happened", dedupe_timeout=timedelta(minutes=1)))
        env.wait(40)

    assert len(env.events_written()) == 3


def test_events_with_other_objects_reasons_or_messages_are_no_duplicates() -> None:
    env = RecorderEnvironment()

    env.publish()
    env.publish("b")
    env.publish(event=EventReason("Other"))
    env.publish(message="it did not")
    env.publish(NodeClaim(name="a"))

    assert len(env.events_written()) == 5


def test_a_dedupe_key_replaces_object_and_message() -> None:
    env = RecorderEnvironment()

    env.publish(message="on n1", dedupe_key=("uid",))
    env.publish(message="on n2", dedupe_key=("uid",))

    assert [event["message"] for event in env.events_written()] == ["on n1"]


def test_ten_of_thousands_of_nominations_are_published_and_then_five_per_second() -> None:
    env = RecorderEnvironment()

    for number in range(1000):
        env.publish(f"pod-{number}", NOMINATED)
    burst = len(env.events_written())
    env.wait(1)
    for number in range(1000, 2000):
        env.publish(f"pod-{number}", NOMINATED)

    assert burst == 10
    assert len(env.events_written()) == 15


def test_events_about_two_thousand_unconsolidatable_nodes_spread_over_several_scans() -> None:
    env = RecorderEnvironment()
    published = []

    for _ in range(5):
        for number in range(2000):
            env.publish(f"node-{number}", UNCONSOLIDATABLE)
        published.append(len(env.events_written()))
        env.wait(300)

    assert published == [500, 1000, 1500, 2000, 2000]


def test_twenty_five_events_per_object_are_published_and_then_one_in_five_minutes() -> None:
    env = RecorderEnvironment()

    for number in range(100):
        env.publish("chatty", message=f"tried {number} times")
    env.publish("quiet")
    burst = len(env.events_written())
    env.wait(600)
    for number in range(100):
        env.publish("chatty", message=f"still {number}")

    assert burst == 25 + 1
    assert len(env.events_written()) == burst + 2


def test_memory_of_events_is_freed_once_they_have_no_effect() -> None:
    env = RecorderEnvironment()

    def count_blocks_after_events(name: str) -> int:
        for number in range(2_000):
            env.publish(Pod(name=f"{name}-{number}", namespace="gone", uid=name), message="x" * 1_000)
        env.wait(3_600)
        env.publish()
        env.log.lines.clear()
        gc.collect()
        return sys.getallocatedblocks()

    first = count_blocks_after_events("first")
    second = count_blocks_after_events("second")

    assert second < first + 1_000
