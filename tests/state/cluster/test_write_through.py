"""What we wrote is in the mirror when the write returns, and late news does not undo it."""

from collections.abc import Coroutine
from typing import Any

import pytest

from dovetail.ports.api_resources import CONFIG_MAPS, NODE_CLAIMS, NODES, PODS
from dovetail.ports.kube_errors import Conflict, NotFound
from dovetail.simulator.apiserver.delete import DeleteOptions
from dovetail.simulator.apiserver.options import WatchOptions
from dovetail.simulator.apiserver.storage.watch import EventType, Watch
from dovetail.simulator.clock import Engine
from dovetail.simulator.event_loop import VirtualLoop
from dovetail.simulator.kube_client import SimKube
from dovetail.state.cluster.cache import Mirror
from dovetail.state.cluster.write_through import ReadYourWrites
from tests.support import wire
from tests.support.cluster import Cluster, a_config_map
from tests.support.slow import SlowKube


class Place:
    """An API server, our writes to it, and a watch that tells when a test says so."""

    def __init__(self) -> None:
        self.api = Cluster()
        self.mirror = Mirror()
        self.slow = SlowKube(SimKube(self.api))
        self.kube = ReadYourWrites(self.slow, self.mirror)
        self.loop = VirtualLoop(Engine(start=self.api.engine.now()))
        self.outcomes: list[Any] = []
        listed = self.api.list(NODE_CLAIMS)
        self.mirror.replace(NODE_CLAIMS, listed.items, revision=listed.resource_version)
        self.watch: Watch = self.api.watch(
            NODE_CLAIMS, WatchOptions(resource_version=listed.resource_version)
        )

    def write(self, work: Coroutine[Any, Any, Any], *, answered: bool = True) -> Any:
        async def done() -> None:
            try:
                self.outcomes.append(await work)
            except (NotFound, Conflict) as error:
                self.outcomes.append(error)

        self.loop.spawn(done())
        if answered:
            self.answer()

    def answer(self) -> None:
        while self.slow.waiting:
            self.slow.let_through(0)

    def tell(self) -> None:
        for event in self.watch.take():
            if event.type is EventType.DELETED:
                self.mirror.remove(NODE_CLAIMS, event.object)
            else:
                self.mirror.put(NODE_CLAIMS, event.object)

    def names(self) -> list[str]:
        return [claim.name for claim in self.mirror.claims()]


def test_what_was_created_is_there_when_the_write_returns() -> None:
    place = Place()

    place.write(place.kube.create(NODE_CLAIMS, wire.claim("a")))

    assert place.names() == ["a"]


def test_what_was_deleted_is_gone_when_the_write_returns_and_old_news_does_not_revive_it() -> None:
    place = Place()
    place.write(place.kube.create(NODE_CLAIMS, wire.claim("a")))
    place.write(
        place.kube.patch(NODE_CLAIMS, "a", {"status": {"nodeName": "n"}}, subresource="status")
    )

    place.write(place.kube.delete(NODE_CLAIMS, "a"))
    first, second, last = place.watch.take()
    for event in (first, second):
        place.mirror.put(NODE_CLAIMS, event.object)
        assert place.names() == []
    place.mirror.remove(NODE_CLAIMS, last.object)

    assert place.names() == []


def test_an_object_that_finalizers_keep_stays_until_the_last_one_is_off() -> None:
    place = Place()
    place.write(place.kube.create(NODE_CLAIMS, wire.claim("a", finalizers=["example.com/keep"])))

    place.write(place.kube.delete(NODE_CLAIMS, "a"))
    going = [claim.deleting for claim in place.mirror.claims()]
    place.write(place.kube.patch(NODE_CLAIMS, "a", {"metadata": {"finalizers": None}}))

    assert going == [True]
    assert place.names() == []


def test_an_answer_that_comes_after_the_watch_told_of_the_end_revives_nothing() -> None:
    place = Place()
    place.write(place.kube.create(NODE_CLAIMS, wire.claim("a")), answered=False)
    place.api.delete(NODE_CLAIMS, "a")
    place.tell()

    place.answer()

    assert place.names() == []


def test_an_answer_about_an_older_namesake_does_not_replace_the_newer() -> None:
    place = Place()
    place.write(place.kube.create(NODE_CLAIMS, wire.claim("a", pool="old")), answered=False)
    place.api.delete(NODE_CLAIMS, "a")
    place.api.create(NODE_CLAIMS, wire.claim("a", pool="new"))
    place.tell()

    place.answer()

    assert [claim.pool for claim in place.mirror.claims()] == ["new"]


def test_a_late_not_found_does_not_bury_who_was_made_since() -> None:
    place = Place()
    place.write(place.kube.create(NODE_CLAIMS, wire.claim("a")))
    place.api.delete(NODE_CLAIMS, "a")
    place.write(place.kube.delete(NODE_CLAIMS, "a"), answered=False)
    place.api.create(NODE_CLAIMS, wire.claim("a", pool="new"))
    place.tell()

    place.answer()

    assert isinstance(place.outcomes[-1], NotFound)
    assert [claim.pool for claim in place.mirror.claims()] == ["new"]


def test_what_turns_out_to_be_gone_already_leaves_the_mirror_at_once() -> None:
    place = Place()
    place.write(place.kube.create(NODE_CLAIMS, wire.claim("a")))
    place.api.delete(NODE_CLAIMS, "a")

    place.write(place.kube.delete(NODE_CLAIMS, "a"))

    assert isinstance(place.outcomes[-1], NotFound)
    assert place.names() == []


def test_a_delete_meant_for_another_uid_is_refused_and_changes_nothing() -> None:
    place = Place()
    place.write(place.kube.create(NODE_CLAIMS, wire.claim("a")))

    place.write(place.kube.delete(NODE_CLAIMS, "a", uid="somebody-else"))

    assert isinstance(place.outcomes[-1], Conflict)
    assert place.names() == ["a"]


def test_a_list_that_is_older_than_our_write_does_not_take_it_away() -> None:
    place = Place()
    place.write(place.kube.create(NODE_CLAIMS, wire.claim("kept", finalizers=["a.b/c"])))
    old = place.api.list(NODE_CLAIMS)
    place.write(place.kube.create(NODE_CLAIMS, wire.claim("new")))
    seen: list[Any] = []
    place.mirror.subscribe(NODE_CLAIMS, seen.append)
    del seen[:]

    place.mirror.replace(NODE_CLAIMS, old.items, revision=old.resource_version)

    assert place.names() == ["kept", "new"]
    assert seen == []


def test_a_list_that_is_older_than_our_delete_does_not_bring_back_the_dead() -> None:
    place = Place()
    place.write(place.kube.create(NODE_CLAIMS, wire.claim("a")))
    old = place.api.list(NODE_CLAIMS)
    place.write(place.kube.delete(NODE_CLAIMS, "a"))

    place.mirror.replace(NODE_CLAIMS, old.items, revision=old.resource_version)

    assert place.names() == []


def test_what_is_missing_from_a_list_is_gone() -> None:
    place = Place()
    place.write(place.kube.create(NODE_CLAIMS, wire.claim("a")))
    place.api.delete(NODE_CLAIMS, "a")

    listed = place.api.list(NODE_CLAIMS)
    place.mirror.replace(NODE_CLAIMS, listed.items, revision=listed.resource_version)

    assert place.names() == []


def test_kinds_that_nobody_mirrors_are_written_all_the_same() -> None:
    place = Place()

    place.write(place.kube.create(CONFIG_MAPS, a_config_map("a", key="value")))
    place.write(place.kube.delete(CONFIG_MAPS, "a", "default"))

    assert place.outcomes[-1] is None


@pytest.mark.parametrize("at_once", [True, False])
def test_a_pod_that_is_given_time_to_stop_stays_until_it_has(at_once: bool) -> None:
    place = Place()
    place.api.create(NODES, wire.node("n1"))
    place.write(place.kube.create(PODS, wire.pod("p", node="n1")))

    place.write(place.kube.delete(PODS, "p", "default", grace_seconds=0 if at_once else None))

    assert len(place.mirror.pods_on("n1")) == (0 if at_once else 1)
    if not at_once:
        options = DeleteOptions(grace_seconds=0)
        place.mirror.remove(PODS, place.api.delete(PODS, "p", "default", options=options))
        assert place.mirror.pods_on("n1") == ()
