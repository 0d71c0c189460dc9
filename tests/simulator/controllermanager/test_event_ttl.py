"""Events do not stay for ever."""

from typing import Any

from dovetail.ports.api_resources import EVENTS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.controllermanager.event_ttl import OldEvents
from tests.support.cluster import Cluster

HOUR = 3600


class Eventful(Cluster):
    """A cluster in which old Events go."""

    def __init__(self) -> None:
        super().__init__()
        OldEvents(self, self.engine)

    def happens(self, name: str) -> None:
        event: dict[str, Any] = {"metadata": {"name": name}, "reason": "Nominated", "count": 1}
        self.create(EVENTS, event, "default")

    def events(self) -> list[str]:
        return [one["metadata"]["name"] for one in self.list(EVENTS).items]


def test_an_event_goes_an_hour_after_it_was_written_and_later_ones_stay() -> None:
    cluster = Eventful()
    cluster.happens("first")
    cluster.wait(HOUR / 2)
    cluster.happens("second")

    cluster.wait(HOUR / 2)

    assert cluster.events() == ["second"]


def test_an_event_that_is_written_again_stays_for_another_hour() -> None:
    cluster = Eventful()
    cluster.happens("often")
    cluster.wait(HOUR / 2)
    cluster.patch(EVENTS, "often", {"count": 2}, PatchType.MERGE, "default")

    cluster.wait(HOUR / 2 + 60)
    after_an_hour = cluster.events()
    cluster.wait(HOUR / 2)

    assert after_an_hour == ["often"]
    assert cluster.events() == []


def test_an_event_that_somebody_deleted_is_no_trouble_later() -> None:
    cluster = Eventful()
    cluster.happens("gone")
    cluster.wait(60)
    cluster.delete(EVENTS, "gone", "default")
    cluster.happens("next")

    cluster.wait(2 * HOUR)

    assert cluster.events() == []
