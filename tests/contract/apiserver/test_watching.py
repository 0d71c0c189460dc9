"""Watches: who is told of what, from when on."""

import pytest

from dovetail.ports.api_resources import LEASES, PODS
from dovetail.ports.kube_errors import Gone
from tests.contract.apiserver.objects import a_lease, a_pod, run_pod, told
from tests.contract.apiserver.subject import Subject

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def relabel(server: Subject, name: str, **labels: str) -> None:
    server.patch(LEASES, name, {"metadata": {"labels": labels}})


def test_a_watch_without_version_begins_with_what_is_there(server: Subject) -> None:
    server.create(LEASES, a_lease("a"))

    watch = server.watch(LEASES)
    first = watch.take(1)
    server.create(LEASES, a_lease("b"))
    relabel(server, "a", x="y")
    server.delete(LEASES, "b")

    assert told([*first, *watch.take(3)]) == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("DELETED", "b"),
    ]
    watch.stop()


def test_a_watch_from_a_lists_version_tells_everything_since_and_nothing_twice(
    server: Subject,
) -> None:
    server.create(LEASES, a_lease("before"))
    version = server.list(LEASES)["metadata"]["resourceVersion"]
    server.create(LEASES, a_lease("between"))

    watch = server.watch(LEASES, resource_version=version)
    server.create(LEASES, a_lease("after"))

    assert told(watch.take(2)) == [("ADDED", "between"), ("ADDED", "after")]
    watch.stop()


def test_every_event_carries_a_later_version(server: Subject) -> None:
    watch = server.watch(LEASES)
    server.create(LEASES, a_lease("a"))
    relabel(server, "a", x="y")
    server.delete(LEASES, "a")

    versions = [int(obj["metadata"]["resourceVersion"]) for _, obj in watch.take(3)]

    assert versions == sorted(set(versions))
    watch.stop()


def test_to_a_selecting_watch_an_object_comes_and_goes_as_it_matches(server: Subject) -> None:
    watch = server.watch(LEASES, labels="pool=a")

    server.create(LEASES, a_lease("n", pool="b"))
    relabel(server, "n", pool="a")
    relabel(server, "n", pool="a", zone="z")
    relabel(server, "n", pool="b")
    relabel(server, "n", pool="c")
    server.create(LEASES, a_lease("end", pool="a"))

    assert told(watch.take(4)) == [
        ("ADDED", "n"),
        ("MODIFIED", "n"),
        ("DELETED", "n"),
        ("ADDED", "end"),
    ]
    watch.stop()


def test_an_object_that_stops_matching_is_told_as_it_was_at_the_new_version(
    server: Subject,
) -> None:
    server.create(LEASES, a_lease("n", pool="a"))
    watch = server.watch(LEASES, labels="pool=a")
    watch.take(1)

    relabel(server, "n", pool="b")

    [(kind, obj)] = watch.take(1)
    assert (kind, obj["metadata"]["labels"]) == ("DELETED", {"pool": "a"})
    now = server.get(LEASES, "n")["metadata"]["resourceVersion"]
    assert obj["metadata"]["resourceVersion"] == now
    watch.stop()


def test_a_kubelets_watch_tells_of_pods_once_they_are_bound_to_its_node(server: Subject) -> None:
    node = server.unique("n1")
    mine = server.watch(PODS, fields=f"spec.nodeName={node}")
    waiting = server.watch(PODS, fields="spec.nodeName=")

    run_pod(server, a_pod("p"), node=node)
    run_pod(server, a_pod("q"), node=server.unique("n2"))

    assert told(mine.take(2)) == [("ADDED", "p"), ("MODIFIED", "p")]
    assert told(waiting.take(4)) == [
        ("ADDED", "p"),
        ("DELETED", "p"),
        ("ADDED", "q"),
        ("DELETED", "q"),
    ]
    mine.stop()
    waiting.stop()


def test_a_watch_of_one_name_hears_of_nothing_else(server: Subject) -> None:
    watch = server.watch(LEASES, fields="metadata.name=b")

    for name in "abc":
        server.create(LEASES, a_lease(name))
    server.delete(LEASES, "b")

    assert told(watch.take(2)) == [("ADDED", "b"), ("DELETED", "b")]
    watch.stop()


def test_a_watch_from_a_forgotten_version_is_gone(server: Subject) -> None:
    old = server.an_old_version()

    with pytest.raises(Gone):
        server.watch(LEASES, resource_version=old).take(1)


def test_bookmarks_tell_how_far_a_watch_is(server: Subject) -> None:
    server.create(LEASES, a_lease("a"))
    last = server.create(LEASES, a_lease("b"))
    watch = server.watch(LEASES, bookmarks=True)
    watch.take(2)

    mark = watch.bookmark()

    assert mark["kind"] == "Lease"
    reached = int(mark["metadata"]["resourceVersion"])
    assert reached >= int(last["metadata"]["resourceVersion"])
    server.watch(LEASES, resource_version=str(reached)).stop()
    watch.stop()


def test_initial_events_end_with_a_bookmark_that_says_so(server: Subject) -> None:
    server.create(LEASES, a_lease("a"))

    watch = server.watch(LEASES, initial_events=True, bookmarks=True)

    assert told(watch.take(1)) == [("ADDED", "a")]
    assert watch.bookmark()["metadata"]["annotations"] == {INITIAL_EVENTS_END: "true"}
    watch.stop()
