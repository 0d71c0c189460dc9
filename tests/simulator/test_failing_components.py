"""A simulated component that fails on one object goes on with all others.

``ApiServer.restore`` stores what no validation has seen, as an object of an older version.
"""

from collections.abc import Mapping
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from dovetail.ports.api_resources import LEASES, NODES, PODS, REPLICA_SETS
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.write import freeze_object
from dovetail.simulator.controllermanager.manager import start_controller_manager
from dovetail.simulator.kubelet.kubelets import Kubelets
from dovetail.simulator.scheduler.scheduler import KubeScheduler
from dovetail.simulator.workqueue import WorkQueue, start_watch
from tests.support.simulator.api_server import START, Cluster, a_node, a_pod, a_replica_set
from tests.support.simulator.kubelets import booted_instance
from tests.support.simulator.scheduler import a_node as a_node_with_room


class FailingApiServer(Cluster):
    """An API server that fails at writes about some pods; errors are recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: set[str] = set()
        self.errors: list[tuple[float, str]] = []
        """Seconds from the start, and the object of each error."""
        self.clock.on_error = self._record

    def bind(self, name: str, namespace: str, binding: Mapping[str, Any]) -> Object:
        if name in self.failing:
            raise RuntimeError("the connection was lost")
        return super().bind(name, namespace, binding)

    def renew_lease(self, name: str, namespace: str, *, renew_time: str) -> Object:
        if name in self.failing:
            raise RuntimeError("the connection was lost")
        return super().renew_lease(name, namespace, renew_time=renew_time)

    def _record(self, error: Exception) -> None:
        self.errors.append(((self.clock.now() - START).total_seconds(), error.__notes__[0]))


def without_spec(name: str) -> Object:
    meta = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-of-{name}",
        "creationTimestamp": "2026-01-01T09:00:00Z",
    }
    return freeze_object({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta})


def test_a_controller_that_fails_on_an_object_reconciles_the_others_and_retries_with_backoff() -> None:
    cluster = FailingApiServer()
    start_controller_manager(cluster, cluster.clock)
    cluster.restore(REPLICA_SETS, without_spec("broken"))
    cluster.create(REPLICA_SETS, a_replica_set("web", replicas=2))

    cluster.wait(20)
    cluster.create(REPLICA_SETS, a_replica_set("late", app="late"))
    cluster.wait(1)

    assert len(cluster.list(PODS).items) == 3
    assert {about for _, about in cluster.errors} == {"default/broken"}
    retries = [at for at, _ in cluster.errors]
    assert retries[-4:] == [1, 3, 7, 15]


def test_an_object_that_is_repaired_is_reconciled() -> None:
    cluster = FailingApiServer()
    start_controller_manager(cluster, cluster.clock)
    broken = cluster.restore(REPLICA_SETS, without_spec("web"))
    cluster.wait(60)

    repaired = {**broken, **a_replica_set("web"), "metadata": broken["metadata"]}
    cluster.restore(REPLICA_SETS, freeze_object(repaired))
    cluster.wait(0)

    assert len(cluster.list(PODS).items) == 1


def test_the_scheduler_binds_other_pods_and_retries_one_that_it_could_not_bind() -> None:
    cluster = FailingApiServer()
    KubeScheduler(cluster, cluster.clock)
    cluster.create(NODES, a_node_with_room("n1"))
    cluster.failing = {"lost"}
    for name in ("lost", "web-1", "web-2"):
        cluster.create(PODS, a_pod(name))

    cluster.wait(8)
    bound = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in cluster.list(PODS).items}
    cluster.failing = set()
    cluster.wait(60)

    assert bound == {"lost": None, "web-1": "n1", "web-2": "n1"}
    assert cluster.get(PODS, "lost", "default")["spec"]["nodeName"] == "n1"
    assert cluster.errors == [(at, "default/lost") for at in (0, 1, 2, 4, 8)]


def test_kubelets_send_heartbeats_beside_one_that_fails() -> None:
    cluster = FailingApiServer()
    kubelets = Kubelets(cluster, cluster.clock)
    for number in (1, 2, 3):
        kubelets.start(booted_instance(number))
    cluster.wait(60)
    first, *others = (lease["metadata"]["name"] for lease in cluster.list(LEASES).items)
    cluster.failing = {first}
    cluster.wait(60)

    renewed = {
        lease["metadata"]["name"]: lease["spec"]["renewTime"][14:19] for lease in cluster.list(LEASES).items
    }
    assert renewed[first] <= "01:00"
    assert all(renewed[name] >= "01:50" for name in others)
    assert {about for _, about in cluster.errors} == {first}


def test_a_lease_without_spec_is_renewed() -> None:
    cluster = Cluster()
    Kubelets(cluster, cluster.clock).start(booted_instance())
    cluster.wait(60)
    [lease] = cluster.list(LEASES).items
    cluster.update(LEASES, {key: value for key, value in lease.items() if key != "spec"})

    cluster.wait(10)

    [lease] = cluster.list(LEASES).items
    assert lease["spec"]["renewTime"]


def test_events_after_one_that_a_handler_fails_on_are_delivered_in_order() -> None:
    cluster = FailingApiServer()
    seen: list[str] = []

    def handle(event: Any) -> None:
        name = event.object["metadata"]["name"]
        if name == "broken":
            cluster.create(NODES, a_node("later"))
            raise KeyError("spec")
        seen.append(name)

    for name in ("a", "broken", "c"):
        cluster.create(NODES, a_node(name))
    start_watch(cluster, cluster.clock, NODES, handle)
    cluster.wait(0)

    assert seen == ["a", "c", "later"]
    assert cluster.errors == [(0, "broken")]


def test_the_backoff_of_a_key_ends_with_success_and_is_at_most_five_minutes() -> None:
    cluster = FailingApiServer()
    times: list[float] = []
    healthy: list[str] = []

    def process(key: str) -> None:
        times.append((cluster.clock.now() - START).total_seconds())
        if not healthy:
            raise KeyError(key)

    queue: WorkQueue[str] = WorkQueue(cluster.clock, process)
    queue.add("a")
    cluster.wait(3600)
    healthy.append("a")
    cluster.wait(300)
    healthy.clear()
    repeated = len(times)
    queue.add("a")
    cluster.wait(1)

    assert times[:10] == [0, 1, 3, 7, 15, 31, 63, 127, 255, 511]
    assert max(later - earlier for earlier, later in pairwise(times[:repeated])) == 300
    assert times[repeated + 1] - times[repeated] == 1
    assert queue.due("a") == cluster.clock.now() + timedelta(seconds=2)


def test_the_run_ends_where_errors_are_not_handled() -> None:
    cluster = Cluster()
    start_controller_manager(cluster, cluster.clock)
    cluster.restore(REPLICA_SETS, without_spec("broken"))

    with pytest.raises(KeyError, match="spec"):
        cluster.wait(20)
