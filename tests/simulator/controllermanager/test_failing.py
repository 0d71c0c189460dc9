"""Pods that are refused the moment they are bound do not stop time."""

import pytest

from dovetail.ports.api_resources import DAEMON_SETS, PODS, REPLICA_SETS, STATEFUL_SETS, Resource
from dovetail.simulator.apiserver.storage.frozen_object import look
from dovetail.simulator.apiserver.storage.store import key_of
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.owner_references import find
from dovetail.simulator.workqueue import Desk, follow
from tests.support.workloads import Working, a_workload, set_pod


def refuse_all(cluster: Working) -> list[str]:
    """Have every pod fail at the instant it comes to be; returns who did."""
    refused: list[str] = []

    def refuse(key: tuple[str, str]) -> None:
        pod = find(cluster, PODS, key)
        if pod is not None and look(pod, "status", "phase") == "Pending":
            refused.append(key[1])
            set_pod(cluster, key, phase="Failed", ready=False)

    desk: Desk[tuple[str, str]] = Desk(cluster.engine, refuse)

    def heard(event: WatchEvent) -> None:
        if event.type is not EventType.DELETED:
            desk.ask(key_of(event.object))

    follow(cluster, cluster.engine, PODS, heard)
    return refused


@pytest.mark.parametrize("resource", [REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS])
def test_a_pod_refused_at_once_is_tried_again_once_a_second(resource: Resource) -> None:
    cluster = Working("n1")
    refused = refuse_all(cluster)

    cluster.create(resource, a_workload(**({} if resource is DAEMON_SETS else {"replicas": 1})))
    cluster.wait(10)

    assert 9 <= len(refused) <= 11
