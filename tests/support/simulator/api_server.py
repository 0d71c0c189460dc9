"""An API server with a virtual clock, and objects for it."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from dovetail.ports.api_resources import PODS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.watch import Watch, WatchEvent
from dovetail.simulator.clock import VirtualClock

START = datetime(2026, 1, 1, 9, 0, tzinfo=UTC)


class Cluster(ApiServer):
    """An API server with its own virtual clock, which a test advances."""

    def __init__(self, *, remember: int = 10_000) -> None:
        self.clock = VirtualClock(start=START)
        super().__init__(now=self.clock.now, watch_cache_size=remember)

    def wait(self, seconds: float) -> None:
        self.clock.run(until=self.clock.now() + timedelta(seconds=seconds))


def a_pod(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
        "spec": {"containers": [{"name": "main", "image": "app:1"}], **spec},
    }


def a_config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


def a_replica_set(name: str, *, replicas: int = 1, app: str = "web") -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": "app:1"}]},
    }
    selector = {"matchLabels": {"app": app}}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


def a_node(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "spec": {}}


def owned_by(
    obj: dict[str, Any], *owners: Object, controller: bool = True, blocks: bool = False
) -> dict[str, Any]:
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": controller,
            "blockOwnerDeletion": blocks,
        }
        for owner in owners
    ]
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": references}}


def with_finalizer(obj: dict[str, Any], *finalizers: str) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "finalizers": list(finalizers)}}


def run_pod(cluster: ApiServer, pod: dict[str, Any], *, node: str = "n1") -> Object:
    """Create a pod, bind it and make it ready, as scheduler and kubelet would."""
    name = cluster.create(PODS, pod)["metadata"]["name"]
    cluster.bind(name, "default", {"target": {"name": node}})
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return cluster.patch(PODS, name, {"status": ready}, PatchType.MERGE, "default", subresource="status")


def seen(watch: Watch) -> list[tuple[str, str]]:
    """The pending events of a watch, as type and name."""
    return [(event.type.value, event.object["metadata"]["name"]) for event in watch.poll()]


def names(objects: Iterable[Object]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


def replayed(events: Iterable[WatchEvent]) -> dict[str, Object]:
    """The objects that a watcher has after these events."""
    objects: dict[str, Object] = {}
    for event in events:
        name = event.object["metadata"]["name"]
        if event.type == "DELETED":
            del objects[name]
        elif event.type != "BOOKMARK":
            assert (event.type == "ADDED") is (name not in objects)
            objects[name] = event.object
    return objects
