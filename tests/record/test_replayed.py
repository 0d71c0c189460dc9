"""A recorded cluster at rest is replayed as that cluster."""

from datetime import timedelta
from pathlib import Path

import pytest

from dovetail.ports import api_resources as kinds
from dovetail.record.fields import RECORDED
from dovetail.replay.play import replay_trace
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.trace.model import End, Header
from dovetail.trace.reader import Trace, load_trace
from dovetail.trace.writer import TraceWriter
from tests.record.objects import Clock, Recording
from tests.replay.traces import START, deployment, node_class, nodepool, options


def bare_pod() -> dict[str, object]:
    container = {"name": "main", "image": "job", "resources": {"requests": {"cpu": "3"}}}
    meta = {"name": "training", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}


def record(path: Path, *, finish_after: float | None = None) -> Trace:
    """Record a cluster with a Deployment and a bare pod, which ends if a time is given."""
    cluster = SimulatedCluster.from_snapshot(
        (), now=START - timedelta(hours=2), catalog=options().catalog, prices=options().prices
    )
    web = deployment("web", 6)
    web["spec"]["template"]["spec"]["containers"][0]["image"] = "web"
    cluster.apply([node_class(), nodepool(), web, bare_pod()])
    cluster.clock.run(until=START)
    clock = Clock()
    clock.now = START
    listed = [(kind, thaw(obj)) for kind in RECORDED for obj in cluster.api.list(kind).items]
    recording = Recording(*listed, clock=clock).begin()
    if finish_after is not None:
        clock.advance(finish_after)
        recording.demand.delete(
            kinds.PODS, next(obj for _, obj in listed if obj["metadata"]["name"] == "training")
        )
    with TraceWriter(path, Header(written_by="test", start=START, region="us-east-1")) as writer:
        for event in (*recording.all, End(t=7200)):
            writer.write(event)
    return load_trace(path)


@pytest.mark.slow
def test_the_replay_of_a_cluster_at_rest_launches_and_evicts_nothing(tmp_path: Path) -> None:
    replayed = replay_trace(record(tmp_path / "t.zst"), options())

    assert (replayed.launched, replayed.evictions) == (0, 0)
    assert replayed.unschedulable == 0


@pytest.mark.slow
def test_the_node_of_an_initial_pod_that_ends_is_removed_in_the_replay(tmp_path: Path) -> None:
    running = replay_trace(record(tmp_path / "a.zst"), options())
    ended = replay_trace(record(tmp_path / "b.zst", finish_after=600), options())

    assert ended.samples[-1].nodes < running.samples[-1].nodes
