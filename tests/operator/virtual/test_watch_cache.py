"""What virtual kubelets know of the API server, whatever order they hear it in."""

from typing import Any

from dovetail.operator.virtual.watch_cache import Shelf
from dovetail.simulator.apiserver.storage.watch import EventType


def a_node(name: str, revision: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-of-{name}", "resourceVersion": str(revision)}}


def test_what_a_list_does_not_have_is_gone() -> None:
    shelf = Shelf()
    shelf.put(a_node("old", 3))
    heard = shelf.subscribe(None)
    heard.take()

    shelf.replace([a_node("other", 4)], revision=5)

    assert [name for _, name in shelf.objects] == ["other"]
    assert [one.type for one in heard.take()] == [EventType.DELETED, EventType.ADDED]


def test_what_was_written_after_the_list_was_made_is_not_gone() -> None:
    shelf = Shelf()
    shelf.put(a_node("new", 6))

    shelf.replace([], revision=5)
    shelf.put(a_node("new", 7))

    assert [one["metadata"]["resourceVersion"] for one in shelf.objects.values()] == ["7"]


def test_news_of_one_that_is_gone_come_too_late() -> None:
    shelf = Shelf()
    shelf.put(a_node("old", 3))
    shelf.remove(a_node("old", 4))

    shelf.put(a_node("old", 3))

    assert not shelf.objects
