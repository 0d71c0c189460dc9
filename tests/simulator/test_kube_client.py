"""KubeClient on the in-memory API server, and the reflectors of a cluster cache."""

from collections.abc import Coroutine
from typing import Any

import pytest

from dovetail.ports.api_resources import NODE_CLAIMS, NODES, POD_DISRUPTION_BUDGETS, PODS
from dovetail.ports.kube_errors import Conflict, NotFound, TooManyRequests
from dovetail.simulator.kube_client import SimulatedKubeClient, start_reflectors
from dovetail.state.cluster.cache import ClusterCache
from tests.support.kube import manifests
from tests.support.simulator.api_server import Cluster, names


def now(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits for something")


def test_every_verb_returns_at_once() -> None:
    cluster = Cluster()
    kube = SimulatedKubeClient(cluster)

    created = now(kube.create(NODES, manifests.node("n1", labels={"team": "a"})))
    now(kube.create(NODES, manifests.node("n2")))
    patched = now(kube.patch(NODES, "n1", {"spec": {"unschedulable": True}}))
    stated = now(kube.patch(NODES, "n1", {"status": {"phase": "x"}}, subresource="status"))

    assert created["metadata"]["name"] == "n1"
    assert patched["spec"]["unschedulable"] is True
    assert stated["status"]["phase"] == "x"
    assert now(kube.get(NODES, "n1")) == stated
    assert names(now(kube.list(NODES, labels="team=a"))) == ["n1"]
    assert names(now(kube.list(NODES, fields="metadata.name=n2"))) == ["n2"]


def test_delete_returns_an_object_kept_by_finalizers() -> None:
    kube = SimulatedKubeClient(Cluster())
    now(kube.create(NODE_CLAIMS, manifests.claim("kept", finalizers=["a.b/c"])))
    now(kube.create(NODE_CLAIMS, manifests.claim("gone")))

    kept = now(kube.delete(NODE_CLAIMS, "kept"))

    assert kept["metadata"]["deletionTimestamp"]
    assert now(kube.delete(NODE_CLAIMS, "gone")) is None
    with pytest.raises(NotFound):
        now(kube.delete(NODE_CLAIMS, "gone"))


def test_writes_with_another_resource_version_or_uid_are_conflicts() -> None:
    kube = SimulatedKubeClient(Cluster())
    created = now(kube.create(NODE_CLAIMS, manifests.claim("a")))
    now(kube.patch(NODE_CLAIMS, "a", {"metadata": {"labels": {"x": "y"}}}))
    stale = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}}

    with pytest.raises(Conflict):
        now(kube.patch(NODE_CLAIMS, "a", stale))
    with pytest.raises(Conflict):
        now(kube.delete(NODE_CLAIMS, "a", uid="another-uid"))


def test_a_pod_is_evicted_unless_its_budget_forbids_it() -> None:
    cluster = Cluster()
    kube = SimulatedKubeClient(cluster)
    pod = manifests.pod("p")
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


def test_reflectors_fill_a_cache_and_keep_it_up_to_date_until_stopped() -> None:
    cluster = Cluster()
    cluster.create(NODES, manifests.node("before"))
    cache = ClusterCache()

    stops = start_reflectors(cache, cluster, cluster.clock)
    at_once = ([node.name for node in cache.nodes()], cache.has_synced())
    cluster.create(NODES, manifests.node("after"))
    cluster.delete(NODES, "before")
    cluster.wait(0)
    kept = [node.name for node in cache.nodes()]
    for stop in stops:
        stop()
    cluster.create(NODES, manifests.node("later"))
    cluster.wait(0)

    assert at_once == (["before"], True)
    assert kept == ["after"]
    assert [node.name for node in cache.nodes()] == ["after"]
