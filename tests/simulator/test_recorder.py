"""Recorder: counts of running and unsettled pods, and timestamps."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS, Resource
from dovetail.simulator.apiserver.options import DeleteOptions, PatchType
from dovetail.simulator.recorder import PodStart, ScenarioRecorder
from tests.support.kube.manifests import claim, node
from tests.support.simulator.api_server import START, Cluster, a_pod, owned_by, run_pod

AT_ONCE = DeleteOptions(grace_period_seconds=0)


def followed() -> tuple[Cluster, ScenarioRecorder]:
    cluster = Cluster()
    return cluster, ScenarioRecorder(cluster, cluster.clock)


def counts(cluster: Cluster, recorder: ScenarioRecorder) -> tuple[int, int]:
    """Running and unsettled pods."""
    cluster.wait(0)
    return recorder.running, recorder.unsettled


def write(cluster: Cluster, resource: Resource, name: str, **status: Any) -> None:
    namespace = "default" if resource.namespaced else ""
    patch = {"status": status}
    cluster.patch(resource, name, patch, PatchType.MERGE, namespace, subresource="status")


def ready(value: bool, kind: str = "Ready") -> list[dict[str, str]]:
    return [{"type": kind, "status": "True" if value else "False"}]


# Pods.


def test_a_pod_is_pending_runs_and_is_deleted() -> None:
    cluster, recorder = followed()

    cluster.create(PODS, a_pod("web"))
    waiting = counts(cluster, recorder)
    cluster.bind("web", "default", {"target": {"name": "n1"}})
    bound = counts(cluster, recorder)
    write(cluster, PODS, "web", phase="Running", conditions=ready(True))
    running = counts(cluster, recorder)
    cluster.delete(PODS, "web", "default")
    going = counts(cluster, recorder)
    cluster.delete(PODS, "web", "default", options=AT_ONCE)
    deleted = counts(cluster, recorder)

    assert (waiting, bound, running, going, deleted) == ((0, 1), (0, 1), (1, 0), (0, 1), (0, 0))


def test_a_running_pod_that_is_not_ready_is_unsettled() -> None:
    cluster, recorder = followed()
    run_pod(cluster, a_pod("web"))

    write(cluster, PODS, "web", conditions=ready(False))

    assert counts(cluster, recorder) == (0, 1)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_terminated_pod_is_neither_running_nor_unsettled(phase: str) -> None:
    cluster, recorder = followed()
    run_pod(cluster, a_pod("job"))

    write(cluster, PODS, "job", phase=phase)

    assert counts(cluster, recorder) == (0, 0)


def test_daemon_and_static_pods_are_not_counted() -> None:
    cluster, recorder = followed()
    owner = cluster.create(NODES, node("n1"))
    run_pod(cluster, owned_by(a_pod("static"), owner))
    daemon = a_pod("daemon")
    daemon["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    ]

    cluster.create(PODS, daemon)

    assert counts(cluster, recorder) == (0, 0)
    assert recorder.last_start is None


def test_existing_pods_are_counted_too() -> None:
    cluster = Cluster()
    run_pod(cluster, a_pod("web"))

    recorder = ScenarioRecorder(cluster, cluster.clock)

    assert counts(cluster, recorder) == (1, 0)


def test_the_last_start_is_recorded_to_the_microsecond() -> None:
    cluster, recorder = followed()
    cluster.wait(0.25)
    cluster.create(PODS, a_pod("web"))
    cluster.bind("web", "default", {"target": {"name": "n1"}})
    cluster.wait(1.5)

    write(cluster, PODS, "web", phase="Running", conditions=ready(True))
    cluster.wait(3)

    assert recorder.last_start == PodStart(
        at=START + timedelta(seconds=1.75),
        pod="default/web",
        created=START + timedelta(seconds=0.25),
        node="n1",
    )


def test_a_change_of_a_running_pod_is_no_start() -> None:
    cluster, recorder = followed()
    run_pod(cluster, a_pod("web"))
    cluster.wait(5)

    cluster.patch(PODS, "web", {"metadata": {"labels": {"a": "b"}}}, PatchType.MERGE, "default")
    cluster.wait(5)

    assert recorder.last_start is not None
    assert recorder.last_start.at == START


def test_a_recreated_pod_is_another_pod() -> None:
    cluster, recorder = followed()
    run_pod(cluster, a_pod("web"))
    cluster.wait(5)

    cluster.delete(PODS, "web", "default", options=AT_ONCE)
    run_pod(cluster, a_pod("web"))

    assert counts(cluster, recorder) == (1, 0)
    assert recorder.last_start is not None
    assert recorder.last_start.created == START + timedelta(seconds=5)


_CHANGES = st.sampled_from(["make", "run", "unready", "end", "delete", "vanish", "wait"])


@given(st.lists(st.tuples(_CHANGES, st.sampled_from("abc"))))
@settings(deadline=None)
def test_running_counts_equal_those_of_a_new_recorder(changes: list[tuple[str, str]]) -> None:
    cluster, recorder = followed()

    for change, name in changes:
        there = any(pod["metadata"]["name"] == name for pod in cluster.list(PODS).items)
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

    fresh = ScenarioRecorder(cluster, cluster.clock)
    assert counts(cluster, recorder) == counts(cluster, fresh)


# Nodes and claims.


def test_the_first_time_a_node_was_ready_is_kept() -> None:
    cluster, recorder = followed()
    cluster.create(NODES, node("n1", provider_id="aws:///a/i-1", ready=False))
    cluster.wait(1)
    assert recorder.node_ready == {}
    assert recorder.provider_of == {"n1": "aws:///a/i-1"}

    for state in (True, False, True):
        write(cluster, NODES, "n1", conditions=ready(state))
        cluster.wait(10)

    assert recorder.node_ready == {"n1": START + timedelta(seconds=1)}


def test_a_deleted_node_is_dropped() -> None:
    cluster, recorder = followed()
    cluster.create(NODES, node("n1", provider_id="aws:///a/i-1"))
    cluster.wait(1)

    cluster.delete(NODES, "n1")
    cluster.wait(1)

    assert (recorder.node_ready, recorder.provider_of) == ({}, {})


def test_creation_and_initialization_of_a_claim_are_recorded() -> None:
    cluster, recorder = followed()
    cluster.wait(0.5)
    cluster.create(NODE_CLAIMS, claim())
    cluster.wait(10)

    for state in (False, True, True):
        write(cluster, NODE_CLAIMS, "claim", conditions=ready(state, "Initialized"))
        cluster.wait(10)

    assert recorder.claim_created == {"claim": START + timedelta(seconds=0.5)}
    assert recorder.claim_initialized == {"claim": START + timedelta(seconds=20.5)}


def test_a_deleted_claim_is_dropped() -> None:
    cluster, recorder = followed()
    cluster.create(NODE_CLAIMS, claim())
    write(cluster, NODE_CLAIMS, "claim", conditions=ready(True, "Initialized"))
    cluster.wait(1)

    cluster.delete(NODE_CLAIMS, "claim")
    cluster.wait(1)

    assert (recorder.claim_created, recorder.claim_initialized) == ({}, {})
