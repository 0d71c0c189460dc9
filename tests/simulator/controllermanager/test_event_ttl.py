"""TTL of Events."""

from typing import Any

from dovetail.ports.api_resources import EVENTS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.controllermanager.context import ManagerContext
from dovetail.simulator.controllermanager.garbage_collection import EventTtlController
from dovetail.simulator.controllermanager.pods.pod_index import PodIndex
from tests.support.simulator.api_server import Cluster

HOUR = 3600


class Eventful(Cluster):
    """A cluster in which Events expire."""

    def __init__(self) -> None:
        super().__init__()
        EventTtlController(ManagerContext(self, self.clock, PodIndex(self, self.clock)))

    def happens(self, name: str) -> None:
        event: dict[str, Any] = {"metadata": {"name": name}, "reason": "Nominated", "count": 1}
        self.create(EVENTS, event, "default")

    def events(self) -> list[str]:
        return [event["metadata"]["name"] for event in self.list(EVENTS).items]


def test_an_event_expires_an_hour_after_it_was_written_and_later_ones_stay() -> None:
    cluster = Eventful()
    cluster.happens("first")
    cluster.wait(HOUR / 2)
    cluster.happens("second")

    cluster.wait(HOUR / 2)

    assert cluster.events() == ["second"]


def test_an_updated_event_stays_for_another_hour() -> None:
    cluster = Eventful()
    cluster.happens("often")
    cluster.wait(HOUR / 2)
    cluster.patch(EVENTS, "often", {"count": 2}, PatchType.MERGE, "default")

    cluster.wait(HOUR / 2 + 60)
    after_an_hour = cluster.events()
    cluster.wait(HOUR / 2)

    assert after_an_hour == ["often"]
    assert cluster.events() == []


def test_an_event_deleted_before_its_ttl_causes_no_error() -> None:
    cluster = Eventful()
    cluster.happens("gone")
    cluster.wait(60)
    cluster.delete(EVENTS, "gone", "default")
    cluster.happens("next")

    cluster.wait(2 * HOUR)

    assert cluster.events() == []
