"""Watch cache of virtual kubelets: consistent in whatever order changes arrive."""

from typing import Any

from dovetail.operator.virtual.watch_cache import Subscription
from dovetail.ports.api_resources import NODES
from dovetail.ports.kube_client import Object
from dovetail.simulator.apiserver.storage.watch import EventType
from dovetail.state.cluster.store import Store


def node_store() -> Store[Object]:
    return Store(NODES, lambda obj, _old, _model: obj)


def a_node(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-of-{name}", "resourceVersion": str(version)}}


def names(store: Store[Object]) -> list[str]:
    return [node["metadata"]["name"] for node in store.values()]


def test_a_list_deletes_the_objects_that_it_does_not_contain() -> None:
    store = node_store()
    store.apply_event(a_node("old", 3))
    subscription = Subscription(store, None)
    subscription.poll()

    store.replace([a_node("other", 4)], "5")

    assert names(store) == ["other"]
    assert {event.type for event in subscription.poll()} == {EventType.DELETED, EventType.ADDED}


def test_an_object_written_after_the_list_is_kept() -> None:
    store = node_store()
    store.apply_response(a_node("new", 6))

    store.replace([], "5")
    store.apply_event(a_node("new", 7))

    assert [node["metadata"]["resourceVersion"] for node in store.values()] == ["7"]


def test_a_late_response_does_not_bring_back_a_deleted_object() -> None:
    store = node_store()
    store.apply_event(a_node("old", 3))
    store.delete(a_node("old", 4))

    store.apply_response(a_node("old", 3))

    assert not names(store)


def test_a_stopped_subscription_gets_no_events() -> None:
    store = node_store()
    notified: list[str] = []
    subscription = Subscription(store, lambda: notified.append("event"))

    subscription.stop()
    store.apply_event(a_node("new", 1))

    assert subscription.poll() == []
    assert notified == []
