"""The bounded watch cache, bookmarks, and the notification of watchers."""

import pytest

from dovetail.ports.api_resources import NODES, PODS
from dovetail.ports.kube_errors import BadRequest, Gone
from dovetail.simulator.apiserver.options import ListOptions, WatchOptions
from tests.support.simulator.api_server import Cluster, a_node, a_pod, seen


def test_the_watch_cache_is_bounded_and_a_watch_from_before_it_is_gone() -> None:
    cluster = Cluster(remember=10)
    start = cluster.resource_version
    for number in range(30):
        cluster.create(NODES, a_node(f"n{number}"))

    with pytest.raises(Gone) as refused:
        cluster.watch(NODES, WatchOptions(resource_version=start))

    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    recent = str(int(cluster.resource_version) - 10)
    assert len(seen(cluster.watch(NODES, WatchOptions(resource_version=recent)))) == 10


def test_after_a_compaction_only_the_current_version_can_be_watched() -> None:
    cluster = Cluster()
    before = cluster.resource_version
    cluster.create(NODES, a_node("n"))

    cluster.compact()

    for resource in (NODES, PODS):
        with pytest.raises(Gone):
            cluster.watch(resource, WatchOptions(resource_version=before))
    cluster.watch(NODES, WatchOptions(resource_version=cluster.resource_version))


def test_changes_are_kept_for_at_least_five_minutes_and_dropped_within_ten() -> None:
    cluster = Cluster()
    start = cluster.resource_version
    cluster.create(NODES, a_node("n"))

    cluster.wait(301)
    cluster.create(PODS, a_pod("first"))
    assert len(seen(cluster.watch(NODES, WatchOptions(resource_version=start)))) == 1

    cluster.wait(301)
    cluster.create(PODS, a_pod("second"))
    with pytest.raises(Gone):
        cluster.watch(NODES, WatchOptions(resource_version=start))


def test_bookmarks_are_sent_to_watches_that_allow_them() -> None:
    cluster = Cluster()
    with_bookmarks = cluster.watch(NODES, WatchOptions(allow_bookmarks=True))
    other = cluster.watch(NODES)
    cluster.create(PODS, a_pod("elsewhere"))

    cluster.send_bookmarks()

    (event,) = with_bookmarks.poll()
    assert event.type == "BOOKMARK"
    assert event.object["metadata"] == {"resourceVersion": cluster.resource_version}
    assert other.poll() == []


def test_a_watcher_is_notified_once_until_it_polls() -> None:
    cluster = Cluster()
    calls: list[str] = []
    watch = cluster.watch(NODES, notify=lambda: calls.append("look"))

    cluster.create(NODES, a_node("a"))
    cluster.create(NODES, a_node("b"))
    assert calls == ["look"]

    watch.poll()
    cluster.create(NODES, a_node("c"))
    assert calls == ["look", "look"]


def test_a_stopped_watch_gets_no_more_events() -> None:
    cluster = Cluster()
    watch = cluster.watch(NODES)

    watch.stop()
    watch.stop()
    cluster.create(NODES, a_node("a"))

    assert watch.poll() == []


def test_a_partly_read_list_expires_in_the_end() -> None:
    cluster = Cluster()
    for name in "ab":
        cluster.create(NODES, a_node(name))
    old = cluster.list(NODES, ListOptions(limit=1)).continue_token
    for _ in range(100):
        cluster.list(NODES, ListOptions(limit=1))

    with pytest.raises(Gone, match="start a new list"):
        cluster.list(NODES, ListOptions(continue_token=old))
    with pytest.raises(BadRequest):
        cluster.list(NODES, ListOptions(continue_token="nonsense"))  # noqa: S106 - not a password
