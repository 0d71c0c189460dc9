"""How much of the past the simulated server keeps, and how it wakes watchers."""

import pytest

from dovetail.ports.api_resources import NODES, PODS
from dovetail.ports.kube_errors import BadRequest, Gone
from dovetail.simulator.apiserver.options import ListOptions, WatchOptions
from tests.support.cluster import Cluster, a_node, a_pod, seen


def test_history_is_bounded_and_a_watch_from_before_it_is_gone() -> None:
    cluster = Cluster(remember=10)
    start = cluster.resource_version
    for number in range(30):
        cluster.create(NODES, a_node(f"n{number}"))

    with pytest.raises(Gone) as refused:
        cluster.watch(NODES, WatchOptions(resource_version=start))

    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    recent = str(int(cluster.resource_version) - 10)
    assert len(seen(cluster.watch(NODES, WatchOptions(resource_version=recent)))) == 10


def test_after_a_compaction_only_the_present_can_be_watched() -> None:
    cluster = Cluster()
    before = cluster.resource_version
    cluster.create(NODES, a_node("n"))

    cluster.compact()

    for resource in (NODES, PODS):
        with pytest.raises(Gone):
            cluster.watch(resource, WatchOptions(resource_version=before))
    cluster.watch(NODES, WatchOptions(resource_version=cluster.resource_version))


def test_bookmarks_tell_those_who_asked_how_far_they_are() -> None:
    cluster = Cluster()
    asked = cluster.watch(NODES, WatchOptions(bookmarks=True))
    other = cluster.watch(NODES)
    cluster.create(PODS, a_pod("elsewhere"))

    cluster.send_bookmarks()

    (event,) = asked.take()
    assert event.type == "BOOKMARK"
    assert event.object["metadata"] == {"resourceVersion": cluster.resource_version}
    assert other.take() == []


def test_a_watcher_is_called_once_for_all_that_it_has_not_taken_yet() -> None:
    cluster = Cluster()
    calls: list[str] = []
    watch = cluster.watch(NODES, notify=lambda: calls.append("look"))

    cluster.create(NODES, a_node("a"))
    cluster.create(NODES, a_node("b"))
    assert calls == ["look"]

    watch.take()
    cluster.create(NODES, a_node("c"))
    assert calls == ["look", "look"]


def test_a_stopped_watch_hears_no_more() -> None:
    cluster = Cluster()
    watch = cluster.watch(NODES)

    watch.stop()
    watch.stop()
    cluster.create(NODES, a_node("a"))

    assert watch.take() == []


def test_a_list_left_half_read_is_forgotten_in_the_end() -> None:
    cluster = Cluster()
    for name in "ab":
        cluster.create(NODES, a_node(name))
    old = cluster.list(NODES, ListOptions(limit=1)).continue_from
    for _ in range(100):
        cluster.list(NODES, ListOptions(limit=1))

    with pytest.raises(Gone, match="start a new list"):
        cluster.list(NODES, ListOptions(continue_from=old))
    with pytest.raises(BadRequest):
        cluster.list(NODES, ListOptions(continue_from="nonsense"))
