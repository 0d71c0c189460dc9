"""Pods that are rejected the moment they are bound do not stop virtual time."""

import pytest

from dovetail.ports.api_resources import DAEMON_SETS, PODS, REPLICA_SETS, STATEFUL_SETS, Resource
from dovetail.simulator.apiserver.interface import find_object
from dovetail.simulator.apiserver.storage.frozen_object import get_field
from dovetail.simulator.apiserver.storage.store import object_key
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.workqueue import WorkQueue, start_watch
from tests.support.simulator.controller_manager import WorkloadCluster, a_workload, set_pod


def reject_all(cluster: WorkloadCluster) -> list[str]:
    """Fail every pod at the instant it is created; return their names."""
    rejected: list[str] = []

    def reject(key: tuple[str, str]) -> None:
        pod = find_object(cluster, PODS, key[1], key[0])
        if pod is not None and get_field(pod, "status", "phase") == "Pending":
            rejected.append(key[1])
            set_pod(cluster, key, phase="Failed", ready=False)

    queue: WorkQueue[tuple[str, str]] = WorkQueue(cluster.clock, reject)

    def on_pod_event(event: WatchEvent) -> None:
        if event.type is not EventType.DELETED:
            queue.add(object_key(event.object))

    start_watch(cluster, cluster.clock, PODS, on_pod_event)
    return rejected


@pytest.mark.parametrize("resource", [REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS])
def test_a_pod_rejected_at_once_is_replaced_once_a_second(resource: Resource) -> None:
    cluster = WorkloadCluster("n1")
    rejected = reject_all(cluster)

    cluster.create(resource, a_workload(**({} if resource is DAEMON_SETS else {"replicas": 1})))
    cluster.wait(10)

    assert 9 <= len(rejected) <= 11
