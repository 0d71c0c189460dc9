"""Watches: events, selectors, start versions and bookmarks."""

import pytest

from dovetail.ports.api_resources import LEASES, PODS
from dovetail.ports.kube_errors import Gone
from tests.contract.apiserver.objects import a_lease, a_pod, event_names, run_pod
from tests.contract.apiserver.subject import Subject

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def relabel(server: Subject, name: str, **labels: str) -> None:
    server.patch(LEASES, name, {"metadata": {"labels": labels}})


def test_a_watch_without_version_begins_with_the_existing_objects(server: Subject) -> None:
    server.create(LEASES, a_lease("a"))

    watch = server.watch(LEASES)
    first = watch.next_events(1)
    server.create(LEASES, a_lease("b"))
    relabel(server, "a", x="y")
    server.delete(LEASES, "b")

    assert event_names([*first, *watch.next_events(3)]) == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("DELETED", "b"),
    ]
    watch.stop()


def test_a_watch_from_the_version_of_a_list_sends_every_later_change_once(server: Subject) -> None:
    server.create(LEASES, a_lease("before"))
    version = server.list(LEASES)["metadata"]["resourceVersion"]
    server.create(LEASES, a_lease("between"))

    watch = server.watch(LEASES, resource_version=version)
    server.create(LEASES, a_lease("after"))

    assert event_names(watch.next_events(2)) == [("ADDED", "between"), ("ADDED", "after")]
    watch.stop()


def test_every_event_has_a_later_version(server: Subject) -> None:
    watch = server.watch(LEASES)
    server.create(LEASES, a_lease("a"))
    relabel(server, "a", x="y")
    server.delete(LEASES, "a")

    versions = [int(obj["metadata"]["resourceVersion"]) for _, obj in watch.next_events(3)]

    assert versions == sorted(set(versions))
    watch.stop()


def test_a_selective_watch_adds_and_deletes_objects_as_they_match(server: Subject) -> None:
    watch = server.watch(LEASES, label_selector="pool=a")

    server.create(LEASES, a_lease("n", pool="b"))
    relabel(server, "n", pool="a")
    relabel(server, "n", pool="a", zone="z")
    relabel(server, "n", pool="b")
    relabel(server, "n", pool="c")
    server.create(LEASES, a_lease("end", pool="a"))

    assert event_names(watch.next_events(4)) == [
        ("ADDED", "n"),
        ("MODIFIED", "n"),
        ("DELETED", "n"),
        ("ADDED", "end"),
    ]
    watch.stop()


def test_an_object_that_stops_matching_is_deleted_at_the_new_version(server: Subject) -> None:
    server.create(LEASES, a_lease("n", pool="a"))
    watch = server.watch(LEASES, label_selector="pool=a")
    watch.next_events(1)

    relabel(server, "n", pool="b")

    [(kind, obj)] = watch.next_events(1)
    assert (kind, obj["metadata"]["labels"]) == ("DELETED", {"pool": "a"})
    now = server.get(LEASES, "n")["metadata"]["resourceVersion"]
    assert obj["metadata"]["resourceVersion"] == now
    watch.stop()


def test_a_watch_by_node_sends_pods_once_they_are_bound(server: Subject) -> None:
    node = server.unique("n1")
    mine = server.watch(PODS, field_selector=f"spec.nodeName={node}")
    waiting = server.watch(PODS, field_selector="spec.nodeName=")

    run_pod(server, a_pod("p"), node=node)
    run_pod(server, a_pod("q"), node=server.unique("n2"))

    assert event_names(mine.next_events(2)) == [("ADDED", "p"), ("MODIFIED", "p")]
    assert event_names(waiting.next_events(4)) == [
        ("ADDED", "p"),
        ("DELETED", "p"),
        ("ADDED", "q"),
        ("DELETED", "q"),
    ]
    mine.stop()
    waiting.stop()


def test_a_watch_of_one_name_sends_no_other_object(server: Subject) -> None:
    watch = server.watch(LEASES, field_selector="metadata.name=b")

    for name in "abc":
        server.create(LEASES, a_lease(name))
    server.delete(LEASES, "b")

    assert event_names(watch.next_events(2)) == [("ADDED", "b"), ("DELETED", "b")]
    watch.stop()


def test_a_watch_from_a_compacted_version_is_gone(server: Subject) -> None:
    old = server.compacted_version()

    with pytest.raises(Gone):
        server.watch(LEASES, resource_version=old).next_events(1)


def test_bookmarks_have_the_newest_version(server: Subject) -> None:
    server.create(LEASES, a_lease("a"))
    last = server.create(LEASES, a_lease("b"))
    watch = server.watch(LEASES, allow_bookmarks=True)
    watch.next_events(2)

    mark = watch.next_bookmark()

    assert mark["kind"] == "Lease"
    reached = int(mark["metadata"]["resourceVersion"])
    assert reached >= int(last["metadata"]["resourceVersion"])
    server.watch(LEASES, resource_version=str(reached)).stop()
    watch.stop()


def test_initial_events_end_with_an_annotated_bookmark(server: Subject) -> None:
    server.create(LEASES, a_lease("a"))

    watch = server.watch(LEASES, send_initial_events=True, allow_bookmarks=True)

    assert event_names(watch.next_events(1)) == [("ADDED", "a")]
    assert watch.next_bookmark()["metadata"]["annotations"] == {INITIAL_EVENTS_END: "true"}
    watch.stop()
