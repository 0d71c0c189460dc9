"""The in-memory API server as controllers write to it, and the watches of a mirror."""

from collections.abc import Coroutine
from typing import Any

import pytest

from dovetail.ports.api_resources import NODE_CLAIMS, NODES, POD_DISRUPTION_BUDGETS, PODS
from dovetail.ports.kube_errors import Conflict, NotFound, TooManyRequests
from dovetail.simulator.kube_client import SimKube, feed
from dovetail.state.cluster.cache import Mirror
from tests.support import wire
from tests.support.cluster import Cluster, names


def now(work: Coroutine[Any, Any, Any]) -> Any:
    """Run what answers at once."""
    try:
        work.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits for something")


def test_every_verb_answers_at_once() -> None:
    cluster = Cluster()
    kube = SimKube(cluster)

    made = now(kube.create(NODES, wire.node("n1", labels={"team": "a"})))
    now(kube.create(NODES, wire.node("n2")))
    patched = now(kube.patch(NODES, "n1", {"spec": {"unschedulable": True}}))
    stated = now(kube.patch(NODES, "n1", {"status": {"phase": "x"}}, subresource="status"))

    assert made["metadata"]["name"] == "n1"
    assert patched["spec"]["unschedulable"] is True
    assert stated["status"]["phase"] == "x"
    assert now(kube.get(NODES, "n1")) == stated
    assert names(now(kube.list(NODES, labels="team=a"))) == ["n1"]
    assert names(now(kube.list(NODES, fields="metadata.name=n2"))) == ["n2"]


def test_deleting_returns_what_finalizers_keep_and_nothing_otherwise() -> None:
    kube = SimKube(Cluster())
    now(kube.create(NODE_CLAIMS, wire.claim("kept", finalizers=["a.b/c"])))
    now(kube.create(NODE_CLAIMS, wire.claim("gone")))

    kept = now(kube.delete(NODE_CLAIMS, "kept"))

    assert kept["metadata"]["deletionTimestamp"]
    assert now(kube.delete(NODE_CLAIMS, "gone")) is None
    with pytest.raises(NotFound):
        now(kube.delete(NODE_CLAIMS, "gone"))


def test_writes_that_are_meant_for_another_version_or_object_are_conflicts() -> None:
    kube = SimKube(Cluster())
    made = now(kube.create(NODE_CLAIMS, wire.claim("a")))
    now(kube.patch(NODE_CLAIMS, "a", {"metadata": {"labels": {"x": "y"}}}))
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}}

    with pytest.raises(Conflict):
        now(kube.patch(NODE_CLAIMS, "a", stale))
    with pytest.raises(Conflict):
        now(kube.delete(NODE_CLAIMS, "a", uid="somebody-else"))


def test_a_pod_is_evicted_unless_its_budget_forbids_it() -> None:
    cluster = Cluster()
    kube = SimKube(cluster)
    pod = wire.pod("p")
    pod["metadata"]["labels"] = {"app": "a"}
    uid = now(kube.create(PODS, pod))["metadata"]["uid"]
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    now(kube.patch(PODS, "p", {"status": running}, "default", subresource="status"))
    spec = {"selector": {"matchLabels": {"app": "a"}}, "maxUnavailable": 0}
    meta = {"name": "none", "namespace": "default"}
    cluster.create(POD_DISRUPTION_BUDGETS, {"metadata": meta, "spec": spec})

    with pytest.raises(TooManyRequests):
        now(kube.evict("p", "default", uid=uid))
    cluster.delete(POD_DISRUPTION_BUDGETS, "none", "default")
    now(kube.evict("p", "default", uid=uid))

    assert now(kube.get(PODS, "p", "default"))["metadata"]["deletionTimestamp"]


def test_a_mirror_is_filled_at_once_and_then_kept_up_to_date_until_it_is_stopped() -> None:
    cluster = Cluster()
    cluster.create(NODES, wire.node("before"))
    mirror = Mirror()

    stops = feed(mirror, cluster, cluster.engine)
    at_once = ([node.name for node in mirror.nodes()], mirror.synced())
    cluster.create(NODES, wire.node("after"))
    cluster.delete(NODES, "before")
    cluster.wait(0)
    kept = [node.name for node in mirror.nodes()]
    for stop in stops:
        stop()
    cluster.create(NODES, wire.node("later"))
    cluster.wait(0)

    assert at_once == (["before"], True)
    assert kept == ["after"]
    assert [node.name for node in mirror.nodes()] == ["after"]
