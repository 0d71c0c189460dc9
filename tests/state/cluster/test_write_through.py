"""Own writes are in the cache when they return, and late events do not undo them."""

from collections.abc import Coroutine
from typing import Any

import pytest

from dovetail.ports.api_resources import CONFIG_MAPS, NODE_CLAIMS, NODES, PODS
from dovetail.ports.kube_errors import Conflict, NotFound
from dovetail.simulator.apiserver.options import DeleteOptions, WatchOptions
from dovetail.simulator.apiserver.storage.watch import EventType, Watch
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.event_loop import VirtualEventLoop
from dovetail.simulator.kube_client import SimulatedKubeClient
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.cluster.write_through import WriteThroughClient
from tests.support.kube import manifests
from tests.support.kube.slow_client import SlowKubeClient
from tests.support.simulator.api_server import Cluster, a_config_map


class WriteEnvironment:
    """An API server, own writes to it, and a watch that the test controls."""

    def __init__(self) -> None:
        self.api = Cluster()
        self.cache = ClusterCache()
        self.slow = SlowKubeClient(SimulatedKubeClient(self.api))
        self.kube = WriteThroughClient(self.slow, self.cache)
        self.loop = VirtualEventLoop(VirtualClock(start=self.api.clock.now()))
        self.outcomes: list[Any] = []
        listed = self.api.list(NODE_CLAIMS)
        self.cache.replace(NODE_CLAIMS, listed.items, revision=listed.resource_version)
        self.watch: Watch = self.api.watch(
            NODE_CLAIMS, WatchOptions(resource_version=listed.resource_version)
        )

    def write(self, work: Coroutine[Any, Any, Any], *, deliver: bool = True) -> Any:
        async def done() -> None:
            try:
                self.outcomes.append(await work)
            except (NotFound, Conflict) as error:
                self.outcomes.append(error)

        self.loop.spawn(done())
        if deliver:
            self.deliver_responses()

    def deliver_responses(self) -> None:
        while self.slow.waiting:
            self.slow.deliver(0)

    def deliver_events(self) -> None:
        for event in self.watch.poll():
            if event.type is EventType.DELETED:
                self.cache.delete(NODE_CLAIMS, event.object)
            else:
                self.cache.apply_event(NODE_CLAIMS, event.object)

    def names(self) -> list[str]:
        return [claim.name for claim in self.cache.claims()]


def test_created_object_is_in_the_cache_when_the_write_returns() -> None:
    env = WriteEnvironment()

    env.write(env.kube.create(NODE_CLAIMS, manifests.claim("a")))

    assert env.names() == ["a"]


def test_deleted_object_is_gone_when_the_write_returns_and_stays_gone_after_late_events() -> None:
    env = WriteEnvironment()
    env.write(env.kube.create(NODE_CLAIMS, manifests.claim("a")))
    env.write(env.kube.patch(NODE_CLAIMS, "a", {"status": {"nodeName": "n"}}, subresource="status"))

    env.write(env.kube.delete(NODE_CLAIMS, "a"))
    first, second, last = env.watch.poll()
    for event in (first, second):
        env.cache.apply_event(NODE_CLAIMS, event.object)
        assert env.names() == []
    env.cache.delete(NODE_CLAIMS, last.object)

    assert env.names() == []


def test_object_with_finalizers_stays_until_the_last_is_removed() -> None:
    env = WriteEnvironment()
    env.write(env.kube.create(NODE_CLAIMS, manifests.claim("a", finalizers=["example.com/keep"])))

    env.write(env.kube.delete(NODE_CLAIMS, "a"))
    going = [claim.deleting for claim in env.cache.claims()]
    env.write(env.kube.patch(NODE_CLAIMS, "a", {"metadata": {"finalizers": None}}))

    assert going == [True]
    assert env.names() == []


def test_response_after_the_deletion_event_does_not_restore_the_object() -> None:
    env = WriteEnvironment()
    env.write(env.kube.create(NODE_CLAIMS, manifests.claim("a")), deliver=False)
    env.api.delete(NODE_CLAIMS, "a")
    env.deliver_events()

    env.deliver_responses()

    assert env.names() == []


def test_response_about_a_deleted_namesake_does_not_replace_the_newer_object() -> None:
    env = WriteEnvironment()
    env.write(env.kube.create(NODE_CLAIMS, manifests.claim("a", pool="old")), deliver=False)
    env.api.delete(NODE_CLAIMS, "a")
    env.api.create(NODE_CLAIMS, manifests.claim("a", pool="new"))
    env.deliver_events()

    env.deliver_responses()

    assert [claim.pool for claim in env.cache.claims()] == ["new"]


def test_late_not_found_does_not_remove_a_recreated_object() -> None:
    env = WriteEnvironment()
    env.write(env.kube.create(NODE_CLAIMS, manifests.claim("a")))
    env.api.delete(NODE_CLAIMS, "a")
    env.write(env.kube.delete(NODE_CLAIMS, "a"), deliver=False)
    env.api.create(NODE_CLAIMS, manifests.claim("a", pool="new"))
    env.deliver_events()

    env.deliver_responses()

    assert isinstance(env.outcomes[-1], NotFound)
    assert [claim.pool for claim in env.cache.claims()] == ["new"]


def test_not_found_on_delete_removes_the_object_at_once() -> None:
    env = WriteEnvironment()
    env.write(env.kube.create(NODE_CLAIMS, manifests.claim("a")))
    env.api.delete(NODE_CLAIMS, "a")

    env.write(env.kube.delete(NODE_CLAIMS, "a"))

    assert isinstance(env.outcomes[-1], NotFound)
    assert env.names() == []


def test_delete_with_another_uid_fails_and_changes_nothing() -> None:
    env = WriteEnvironment()
    env.write(env.kube.create(NODE_CLAIMS, manifests.claim("a")))

    env.write(env.kube.delete(NODE_CLAIMS, "a", uid="another-uid"))

    assert isinstance(env.outcomes[-1], Conflict)
    assert env.names() == ["a"]


def test_list_older_than_an_own_write_does_not_remove_it() -> None:
    env = WriteEnvironment()
    env.write(env.kube.create(NODE_CLAIMS, manifests.claim("kept", finalizers=["a.b/c"])))
    old = env.api.list(NODE_CLAIMS)
    env.write(env.kube.create(NODE_CLAIMS, manifests.claim("new")))
    observed: list[Any] = []
    env.cache.subscribe(NODE_CLAIMS, observed.append)
    del observed[:]

    env.cache.replace(NODE_CLAIMS, old.items, revision=old.resource_version)

    assert env.names() == ["kept", "new"]
    assert observed == []


def test_list_older_than_an_own_delete_does_not_restore_the_object() -> None:
    env = WriteEnvironment()
    env.write(env.kube.create(NODE_CLAIMS, manifests.claim("a")))
    old = env.api.list(NODE_CLAIMS)
    env.write(env.kube.delete(NODE_CLAIMS, "a"))

    env.cache.replace(NODE_CLAIMS, old.items, revision=old.resource_version)

    assert env.names() == []


def test_objects_missing_from_a_list_are_removed() -> None:
    env = WriteEnvironment()
    env.write(env.kube.create(NODE_CLAIMS, manifests.claim("a")))
    env.api.delete(NODE_CLAIMS, "a")

    listed = env.api.list(NODE_CLAIMS)
    env.cache.replace(NODE_CLAIMS, listed.items, revision=listed.resource_version)

    assert env.names() == []


def test_uncached_kinds_can_be_written() -> None:
    env = WriteEnvironment()

    env.write(env.kube.create(CONFIG_MAPS, a_config_map("a", key="value")))
    env.write(env.kube.delete(CONFIG_MAPS, "a", "default"))

    assert env.outcomes[-1] is None


@pytest.mark.parametrize("at_once", [True, False])
def test_pod_with_a_grace_period_stays_until_it_is_gone(at_once: bool) -> None:
    env = WriteEnvironment()
    env.api.create(NODES, manifests.node("n1"))
    env.write(env.kube.create(PODS, manifests.pod("p", node="n1")))

    env.write(env.kube.delete(PODS, "p", "default", grace_seconds=0 if at_once else None))

    assert len(env.cache.pods_on("n1")) == (0 if at_once else 1)
    if not at_once:
        options = DeleteOptions(grace_period_seconds=0)
        env.cache.delete(PODS, env.api.delete(PODS, "p", "default", options=options))
        assert env.cache.pods_on("n1") == ()
