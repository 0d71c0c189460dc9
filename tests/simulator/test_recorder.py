"""The chronicle: how many pods run or wait, and when what happened."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS, Resource
from dovetail.simulator.apiserver.delete import DeleteOptions
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.recorder import Chronicle, Started
from tests.support.cluster import START, Cluster, a_pod, owned_by, run_pod
from tests.support.wire import claim, node

AT_ONCE = DeleteOptions(grace_seconds=0)


def followed() -> tuple[Cluster, Chronicle]:
    cluster = Cluster()
    return cluster, Chronicle(cluster, cluster.engine)


def counts(cluster: Cluster, chronicle: Chronicle) -> tuple[int, int]:
    """Pods that run, and pods that are not settled."""
    cluster.wait(0)
    return chronicle.running, chronicle.unsettled


def write(cluster: Cluster, resource: Resource, name: str, **status: Any) -> None:
    namespace = "default" if resource.namespaced else ""
    patch = {"status": status}
    cluster.patch(resource, name, patch, PatchType.MERGE, namespace, subresource="status")


def ready(value: bool, kind: str = "Ready") -> list[dict[str, str]]:
    return [{"type": kind, "status": "True" if value else "False"}]


# Pods.


def test_a_pod_waits_runs_and_goes() -> None:
    cluster, chronicle = followed()

    cluster.create(PODS, a_pod("web"))
    waiting = counts(cluster, chronicle)
    cluster.bind("web", "default", {"target": {"name": "n1"}})
    bound = counts(cluster, chronicle)
    write(cluster, PODS, "web", phase="Running", conditions=ready(True))
    running = counts(cluster, chronicle)
    cluster.delete(PODS, "web", "default")
    going = counts(cluster, chronicle)
    cluster.delete(PODS, "web", "default", options=AT_ONCE)
    gone = counts(cluster, chronicle)

    assert (waiting, bound, running, going, gone) == ((0, 1), (0, 1), (1, 0), (0, 1), (0, 0))


def test_a_pod_that_runs_without_being_ready_is_not_settled() -> None:
    cluster, chronicle = followed()
    run_pod(cluster, a_pod("web"))

    write(cluster, PODS, "web", conditions=ready(False))

    assert counts(cluster, chronicle) == (0, 1)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_neither_runs_nor_waits(phase: str) -> None:
    cluster, chronicle = followed()
    run_pod(cluster, a_pod("job"))

    write(cluster, PODS, "job", phase=phase)

    assert counts(cluster, chronicle) == (0, 0)


def test_pods_that_follow_their_nodes_are_not_counted() -> None:
    cluster, chronicle = followed()
    owner = cluster.create(NODES, node("n1"))
    run_pod(cluster, owned_by(a_pod("static"), owner))
    daemon = a_pod("daemon")
    daemon["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    ]

    cluster.create(PODS, daemon)

    assert counts(cluster, chronicle) == (0, 0)
    assert chronicle.last_start is None


def test_pods_that_were_there_before_are_counted_too() -> None:
    cluster = Cluster()
    run_pod(cluster, a_pod("web"))

    chronicle = Chronicle(cluster, cluster.engine)

    assert counts(cluster, chronicle) == (1, 0)


def test_the_last_start_is_known_to_the_microsecond() -> None:
    cluster, chronicle = followed()
    cluster.wait(0.25)
    cluster.create(PODS, a_pod("web"))
    cluster.bind("web", "default", {"target": {"name": "n1"}})
    cluster.wait(1.5)

    write(cluster, PODS, "web", phase="Running", conditions=ready(True))
    cluster.wait(3)

    assert chronicle.last_start == Started(
        at=START + timedelta(seconds=1.75),
        pod="default/web",
        made=START + timedelta(seconds=0.25),
        node="n1",
    )


def test_a_change_to_a_pod_that_runs_is_no_start() -> None:
    cluster, chronicle = followed()
    run_pod(cluster, a_pod("web"))
    cluster.wait(5)

    cluster.patch(PODS, "web", {"metadata": {"labels": {"a": "b"}}}, PatchType.MERGE, "default")
    cluster.wait(5)

    assert chronicle.last_start is not None
    assert chronicle.last_start.at == START


def test_a_pod_of_the_same_name_is_another_pod() -> None:
    cluster, chronicle = followed()
    run_pod(cluster, a_pod("web"))
    cluster.wait(5)

    cluster.delete(PODS, "web", "default", options=AT_ONCE)
    run_pod(cluster, a_pod("web"))

    assert counts(cluster, chronicle) == (1, 0)
    assert chronicle.last_start is not None
    assert chronicle.last_start.made == START + timedelta(seconds=5)


_CHANGES = st.sampled_from(["make", "run", "unready", "end", "delete", "vanish", "wait"])


@given(st.lists(st.tuples(_CHANGES, st.sampled_from("abc"))))
@settings(deadline=None)
def test_counts_kept_up_are_those_of_a_fresh_look(changes: list[tuple[str, str]]) -> None:
    cluster, chronicle = followed()

    for change, name in changes:
        there = any(one["metadata"]["name"] == name for one in cluster.list(PODS).items)
        if change == "make" and not there:
            cluster.create(PODS, a_pod(name))
        elif change == "wait":
            cluster.wait(1)
        elif there and change == "run":
            write(cluster, PODS, name, phase="Running", conditions=ready(True))
        elif there and change == "unready":
            write(cluster, PODS, name, phase="Running", conditions=ready(False))
        elif there and change == "end":
            write(cluster, PODS, name, phase="Succeeded")
        elif there and change in ("delete", "vanish"):
            options = AT_ONCE if change == "vanish" else DeleteOptions()
            cluster.delete(PODS, name, "default", options=options)

    fresh = Chronicle(cluster, cluster.engine)
    assert counts(cluster, chronicle) == counts(cluster, fresh)


# Nodes and claims.


def test_a_node_is_ready_from_the_first_time_on() -> None:
    cluster, chronicle = followed()
    cluster.create(NODES, node("n1", provider_id="aws:///a/i-1", ready=False))
    cluster.wait(1)
    assert chronicle.node_ready == {}
    assert chronicle.provider_of == {"n1": "aws:///a/i-1"}

    for state in (True, False, True):
        write(cluster, NODES, "n1", conditions=ready(state))
        cluster.wait(10)

    assert chronicle.node_ready == {"n1": START + timedelta(seconds=1)}


def test_a_node_that_is_gone_is_forgotten() -> None:
    cluster, chronicle = followed()
    cluster.create(NODES, node("n1", provider_id="aws:///a/i-1"))
    cluster.wait(1)

    cluster.delete(NODES, "n1")
    cluster.wait(1)

    assert (chronicle.node_ready, chronicle.provider_of) == ({}, {})


def test_a_claim_is_known_from_when_it_was_made_and_when_it_was_initialized() -> None:
    cluster, chronicle = followed()
    cluster.wait(0.5)
    cluster.create(NODE_CLAIMS, claim())
    cluster.wait(10)

    for state in (False, True, True):
        write(cluster, NODE_CLAIMS, "claim", conditions=ready(state, "Initialized"))
        cluster.wait(10)

    assert chronicle.claim_made == {"claim": START + timedelta(seconds=0.5)}
    assert chronicle.claim_initialized == {"claim": START + timedelta(seconds=20.5)}


def test_a_claim_that_is_gone_is_forgotten() -> None:
    cluster, chronicle = followed()
    cluster.create(NODE_CLAIMS, claim())
    write(cluster, NODE_CLAIMS, "claim", conditions=ready(True, "Initialized"))
    cluster.wait(1)

    cluster.delete(NODE_CLAIMS, "claim")
    cluster.wait(1)

    assert (chronicle.claim_made, chronicle.claim_initialized) == ({}, {})
