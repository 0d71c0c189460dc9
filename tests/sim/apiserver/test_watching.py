"""Watches and lists: who sees what, from when on."""

from typing import Any

import pytest

from dovetail.ports.kubeerrors import BadRequest, Gone, Timeout
from dovetail.ports.resources import NODES, PODS
from dovetail.sim.apiserver.options import ListOptions, PatchType, WatchOptions
from tests.support.cluster import Cluster, a_node, a_pod, names, run_pod, seen


def relabel(cluster: Cluster, name: str, **labels: str) -> None:
    cluster.patch(NODES, name, {"metadata": {"labels": labels}}, PatchType.MERGE)


def test_a_watch_without_version_begins_with_what_is_there() -> None:
    cluster = Cluster()
    cluster.create(NODES, a_node("a"))

    watch = cluster.watch(NODES)
    cluster.create(NODES, a_node("b"))
    relabel(cluster, "a", x="y")
    cluster.delete(NODES, "b")

    assert seen(watch) == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    assert seen(watch) == []


def test_a_watch_from_a_lists_version_tells_everything_since_and_nothing_twice() -> None:
    cluster = Cluster()
    cluster.create(NODES, a_node("before"))
    listed = cluster.list(NODES)
    cluster.create(NODES, a_node("between"))

    watch = cluster.watch(NODES, WatchOptions(resource_version=listed.resource_version))
    cluster.create(NODES, a_node("after"))

    assert seen(watch) == [("ADDED", "between"), ("ADDED", "after")]


def test_to_a_selecting_watch_an_object_comes_and_goes_as_it_matches() -> None:
    cluster = Cluster()
    watch = cluster.watch(NODES, WatchOptions(labels="pool=a"))

    cluster.create(NODES, a_node("n", pool="b"))
    relabel(cluster, "n", pool="a")
    relabel(cluster, "n", pool="a", zone="z")
    relabel(cluster, "n", pool="b")
    relabel(cluster, "n", pool="c")

    assert seen(watch) == [("ADDED", "n"), ("MODIFIED", "n"), ("DELETED", "n")]


def test_an_object_that_stops_matching_is_told_as_it_was_at_the_new_version() -> None:
    cluster = Cluster()
    cluster.create(NODES, a_node("n", pool="a"))
    watch = cluster.watch(NODES, WatchOptions(labels="pool=a"))
    watch.take()

    relabel(cluster, "n", pool="b")

    (event,) = watch.take()
    assert event.object["metadata"]["labels"] == {"pool": "a"}
    assert event.object["metadata"]["resourceVersion"] == cluster.resource_version


def test_a_kubelets_watch_tells_of_pods_once_they_are_bound_to_its_node() -> None:
    cluster = Cluster()
    mine = cluster.watch(PODS, WatchOptions(fields="spec.nodeName=n1"))
    waiting = cluster.watch(PODS, WatchOptions(fields="spec.nodeName="))

    run_pod(cluster, a_pod("p"), node="n1")
    run_pod(cluster, a_pod("q"), node="n2")

    assert seen(mine) == [("ADDED", "p"), ("MODIFIED", "p")]
    assert seen(waiting) == [("ADDED", "p"), ("DELETED", "p"), ("ADDED", "q"), ("DELETED", "q")]


def test_a_watch_of_one_name_or_namespace_hears_of_nothing_else() -> None:
    cluster = Cluster()
    by_name = cluster.watch(PODS, WatchOptions(fields="metadata.name=a"))
    by_namespace = cluster.watch(PODS, WatchOptions(namespace="kube-system"))
    in_both = cluster.watch(PODS, WatchOptions(namespace="kube-system", fields="metadata.name=a"))

    cluster.create(PODS, a_pod("a"))
    cluster.create(PODS, a_pod("b"))
    cluster.create(PODS, {"metadata": {"name": "b"}}, "kube-system")

    assert seen(by_name) == [("ADDED", "a")]
    assert seen(by_namespace) == [("ADDED", "b")]
    assert seen(in_both) == []


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


def test_a_version_from_the_future_times_out() -> None:
    cluster = Cluster()

    with pytest.raises(Timeout, match="Too large resource version"):
        cluster.watch(NODES, WatchOptions(resource_version="999"))
    with pytest.raises(Timeout):
        cluster.list(NODES, ListOptions(resource_version="999"))
    with pytest.raises(BadRequest):
        cluster.list(NODES, ListOptions(resource_version="soon"))


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


def test_initial_events_end_with_a_bookmark_that_says_so() -> None:
    cluster = Cluster()
    cluster.create(NODES, a_node("n"))

    watch = cluster.watch(NODES, WatchOptions(initial_events=True, bookmarks=True))

    added, end = watch.take()
    assert (added.type, end.type) == ("ADDED", "BOOKMARK")
    assert end.object["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


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


def test_a_list_is_ordered_and_selects_by_namespace_labels_and_fields() -> None:
    cluster = Cluster()
    for name, app in (("c", "web"), ("a", "web"), ("b", "db")):
        cluster.create(PODS, a_pod(name, labels={"app": app}))
    cluster.create(PODS, {"metadata": {"name": "z"}}, "kube-system")
    cluster.bind("a", "default", {"target": {"name": "n1"}})

    def listed(**which: Any) -> list[str]:
        return names(cluster.list(PODS, ListOptions(**which)).items)

    assert listed() == ["a", "b", "c", "z"]
    assert listed(namespace="kube-system") == ["z"]
    assert listed(labels="app in (web)") == ["a", "c"]
    assert listed(fields="spec.nodeName=n1") == ["a"]
    assert listed(fields="spec.nodeName=,metadata.namespace=default") == ["b", "c"]
    assert listed(fields="metadata.name=b", namespace="default") == ["b"]
    assert listed(fields="metadata.name=b", namespace="kube-system") == []


def test_all_pages_of_a_list_are_from_one_moment() -> None:
    cluster = Cluster()
    for name in "abcde":
        cluster.create(NODES, a_node(name))

    first = cluster.list(NODES, ListOptions(limit=2))
    cluster.delete(NODES, "c")
    cluster.create(NODES, a_node("bb"))
    second = cluster.list(NODES, ListOptions(limit=2, continue_from=first.continue_from))
    third = cluster.list(NODES, ListOptions(limit=2, continue_from=second.continue_from))

    assert [names(page.items) for page in (first, second, third)] == [["a", "b"], ["c", "d"], ["e"]]
    assert (first.remaining, second.remaining, third.continue_from) == (3, 1, "")
    assert first.resource_version == second.resource_version == third.resource_version
    assert first.wire()["metadata"]["remainingItemCount"] == 3


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


def test_a_list_can_be_as_of_an_earlier_version() -> None:
    cluster = Cluster()
    cluster.create(NODES, a_node("a", pool="x"))
    cluster.create(NODES, a_node("b"))
    then = cluster.list(NODES)
    relabel(cluster, "a", pool="y")
    cluster.delete(NODES, "b")
    cluster.create(NODES, a_node("c"))

    exact = ListOptions(resource_version=then.resource_version, exact=True)
    at_least = ListOptions(resource_version=then.resource_version)

    assert cluster.list(NODES, exact) == then
    assert names(cluster.list(NODES, at_least).items) == ["a", "c"]
    cluster.compact()
    with pytest.raises(Gone):
        cluster.list(NODES, exact)
