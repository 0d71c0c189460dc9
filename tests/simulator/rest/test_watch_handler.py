"""Watches over HTTP: lines of events, and how they end."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dovetail.ports.api_resources import CONFIG_MAPS
from tests.simulator.rest.objects import add, add_pod
from tests.simulator.rest.rest_server import TOKEN, Cluster

MAPS = "/api/v1/namespaces/default/configmaps"


class Stream:
    """The lines of an answer that goes on."""

    def __init__(self, response: Any) -> None:
        self._response = response

    def event(self) -> dict[str, Any]:
        """Return the next event; an empty one when the stream is over."""
        line = self._response.readline()
        event: dict[str, Any] = json.loads(line) if line else {}
        return event

    def rest(self) -> list[dict[str, Any]]:
        return list(iter(self.event, {}))


@contextmanager
def watching(cluster: Cluster, path: str, accept: str = "application/json") -> Iterator[Stream]:
    connection = cluster.connect()
    try:
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": accept}
        connection.request("GET", path, headers=headers)
        yield Stream(connection.getresponse())
    finally:
        connection.close()


def add_map(cluster: Cluster, name: str, **labels: str) -> dict[str, Any]:
    return add(cluster, CONFIG_MAPS, {"metadata": {"name": name, "labels": labels}})


def event_name(event: dict[str, Any]) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"].get("name", "")


def test_a_watch_sends_existing_objects_and_every_change(cluster: Cluster) -> None:
    add_map(cluster, "old")

    with watching(cluster, f"{MAPS}?watch=true") as stream:
        events = [event_name(stream.event())]
        add_map(cluster, "new")
        events.append(event_name(stream.event()))
        cluster.run(lambda: cluster.api.delete(CONFIG_MAPS, "old", "default"))
        events.append(event_name(stream.event()))

    assert events == [("ADDED", "old"), ("ADDED", "new"), ("DELETED", "old")]


def test_a_watch_goes_on_where_a_list_ended(cluster: Cluster) -> None:
    add_map(cluster, "old")
    version = cluster.request("GET", MAPS).json()["metadata"]["resourceVersion"]
    add_map(cluster, "meanwhile")

    with watching(cluster, f"{MAPS}?watch=1&resourceVersion={version}") as stream:
        event = stream.event()

    assert event_name(event) == ("ADDED", "meanwhile")


def test_a_watch_with_a_selector_or_a_name_sends_only_matching_objects(cluster: Cluster) -> None:
    with (
        watching(cluster, f"{MAPS}?watch=1&labelSelector=a%3Db") as by_label,
        watching(cluster, f"{MAPS}/named?watch=1") as by_name,
    ):
        add_map(cluster, "other")
        add_map(cluster, "labelled", a="b")
        add_map(cluster, "named")
        events = [event_name(by_label.event()), event_name(by_name.event())]

    assert events == [("ADDED", "labelled"), ("ADDED", "named")]


def test_a_watch_ends_after_the_seconds_asked_for_with_a_bookmark(cluster: Cluster) -> None:
    add_map(cluster, "one")
    newest = cluster.api.resource_version

    with watching(cluster, f"{MAPS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true") as stream:
        events = stream.rest()

    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    assert events[-1]["object"]["metadata"]["resourceVersion"] == newest
    assert events[-1]["object"]["kind"] == "ConfigMap"


def test_a_watch_that_does_not_allow_bookmarks_gets_none(cluster: Cluster) -> None:
    query = "watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"

    with watching(cluster, f"{MAPS}?{query}") as stream:
        events = stream.rest()

    assert events == []


def test_initial_events_end_with_an_annotated_bookmark(cluster: Cluster) -> None:
    add_map(cluster, "one")
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

    with watching(cluster, f"{MAPS}?{query}") as stream:
        first, last = stream.event(), stream.event()

    assert event_name(first) == ("ADDED", "one")
    assert last["type"] == "BOOKMARK"
    assert last["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_watch_can_begin_with_what_comes_next(cluster: Cluster) -> None:
    add_map(cluster, "old")
    query = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"

    with watching(cluster, f"{MAPS}?{query}") as stream:
        add_map(cluster, "new")
        event = stream.event()

    assert event_name(event) == ("ADDED", "new")


def test_a_watch_from_a_forgotten_version_gets_an_error_event_and_ends(cluster: Cluster) -> None:
    add_map(cluster, "one")
    version = cluster.api.resource_version
    add_map(cluster, "two")
    cluster.run(cluster.api.compact)

    with watching(cluster, f"{MAPS}?watch=1&resourceVersion={version}") as stream:
        events = stream.rest()

    assert [event["type"] for event in events] == ["ERROR"]
    assert events[0]["object"]["code"] == 410
    assert events[0]["object"]["reason"] == "Expired"


def test_a_list_of_a_forgotten_version_is_gone(cluster: Cluster) -> None:
    add_map(cluster, "one")
    version = cluster.api.resource_version
    add_map(cluster, "two")
    cluster.run(cluster.api.compact)

    exact = f"resourceVersion={version}&resourceVersionMatch=Exact"
    answers = [cluster.request("GET", f"{MAPS}?{parameters}") for parameters in (exact, "continue=99:1")]

    assert [(response.status, response.json()["reason"]) for response in answers] == [(410, "Expired")] * 2


def test_a_watch_of_a_table_names_its_columns_once(cluster: Cluster) -> None:
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"

    with watching(cluster, "/api/v1/pods?watch=1", table) as stream:
        add_pod(cluster, "web")
        first, second = stream.event(), stream.event()

    assert first["object"]["columnDefinitions"][0]["name"] == "Name"
    assert second["object"]["columnDefinitions"] == []
    assert second["object"]["rows"][0]["cells"][:3] == ["web", "1/1", "Running"]
    assert second["object"]["rows"][0]["object"]["metadata"]["namespace"] == "default"


@pytest.mark.parametrize("path", [f"{MAPS}?watch=1", "/api/v1/nodes?watch=1"])
def test_stopping_the_server_ends_watches_at_once(cluster: Cluster, path: str) -> None:
    with watching(cluster, path) as stream:
        before = time.monotonic()
        cluster.stop()
        events = stream.rest()
        took = time.monotonic() - before

    assert events == []
    assert took < 1
