"""A recorded cluster at rest is replayed as that cluster."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource
from dovetail.record.fields import RECORDED
from dovetail.replay.play import replay_trace
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.kubelet.pod_workers import RUN_SECONDS
from dovetail.trace.model import End, Header, Interruption
from dovetail.trace.reader import Trace, load_trace
from dovetail.trace.writer import TraceWriter
from tests.record.objects import Clock, Recording
from tests.replay.traces import START, deployment, node_class, nodepool, options


def bare_pod() -> dict[str, object]:
    container = {"name": "main", "image": "job", "resources": {"requests": {"cpu": "3"}}}
    meta = {"name": "training", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}


def running_job() -> dict[str, object]:
    container = {"name": "main", "image": "job", "resources": {"requests": {"cpu": "3"}}}
    template = {
        "metadata": {"annotations": {RUN_SECONDS: "100000"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    meta = {"name": "nightly", "namespace": "shop"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template}}


def with_template(workload: dict[str, Any], **changed: object) -> dict[str, Any]:
    """Return a workload with other fields in the pod spec of its template; None removes one."""
    template = workload["spec"]["template"]
    spec = {key: value for key, value in {**template["spec"], **changed}.items() if value is not None}
    return {**workload, "spec": {**workload["spec"], "template": {**template, "spec": spec}}}


class Recorded:
    """A recording of a cluster at rest, to which changes are added."""

    def __init__(self, *objects: dict[str, object]) -> None:
        cluster = SimulatedCluster.from_snapshot(
            (), now=START - timedelta(hours=2), catalog=options().catalog, prices=options().prices
        )
        web = deployment("web", 6)
        web["spec"]["template"]["spec"]["containers"][0]["image"] = "web"
        cluster.apply([node_class(), nodepool(), web])
        cluster.clock.run(until=START - timedelta(minutes=5))
        cluster.apply(objects)
        cluster.clock.run(until=START)
        self._clock = Clock()
        self._clock.now = START
        self._listed = [(kind, thaw(obj)) for kind in RECORDED for obj in cluster.api.list(kind).items]
        self._recording = Recording(*self._listed, clock=self._clock).begin()

    def find(self, kind: Resource, prefix: str) -> dict[str, Any]:
        return next(
            obj for each, obj in self._listed if each is kind and obj["metadata"]["name"].startswith(prefix)
        )

    def change(self, after: float, kind: Resource, obj: dict[str, Any]) -> "Recorded":
        self._clock.advance(after)
        self._recording.demand.apply(kind, obj)
        return self

    def delete(self, after: float, kind: Resource, obj: dict[str, Any]) -> "Recorded":
        self._clock.advance(after)
        self._recording.demand.delete(kind, obj)
        return self

    def save(self, path: Path) -> Trace:
        with TraceWriter(path, Header(written_by="test", start=START, region="us-east-1")) as writer:
            for event in (*self._recording.all, End(t=7200)):
                writer.write(event)
        return load_trace(path)


@pytest.mark.slow
def test_the_replay_of_a_cluster_at_rest_launches_and_evicts_nothing(tmp_path: Path) -> None:
    trace = Recorded(bare_pod(), running_job()).save(tmp_path / "t.zst")

    replayed = replay_trace(trace, options())

    assert (replayed.launched, replayed.evictions) == (0, 0)
    assert replayed.unschedulable == 0


@pytest.mark.slow
def test_the_node_of_an_initial_pod_that_ends_is_removed_in_the_replay(tmp_path: Path) -> None:
    recorded = Recorded(bare_pod())
    running = replay_trace(recorded.save(tmp_path / "a.zst"), options())
    recorded.delete(600, kinds.PODS, recorded.find(kinds.PODS, "training"))

    ended = replay_trace(recorded.save(tmp_path / "b.zst"), options())

    assert ended.samples[-1].nodes < running.samples[-1].nodes


@pytest.mark.slow
def test_a_recorded_deployment_is_scaled_in_the_replay(tmp_path: Path) -> None:
    recorded = Recorded()
    web = recorded.find(kinds.DEPLOYMENTS, "web")
    recorded.change(600, kinds.DEPLOYMENTS, {**web, "spec": {**web["spec"], "replicas": 12}})

    replayed = replay_trace(recorded.save(tmp_path / "t.zst"), options())

    assert replayed.waiting.pods == 6
    assert replayed.launched > 0
    assert replayed.notes == ()


@pytest.mark.slow
def test_a_roll_out_of_another_image_replaces_every_pod_in_the_replay(tmp_path: Path) -> None:
    recorded = Recorded()
    web = recorded.find(kinds.DEPLOYMENTS, "web")
    spec = web["spec"]["template"]["spec"]
    containers = [{**container, "image": "web:2"} for container in spec["containers"]]
    template = {**web["spec"]["template"], "spec": {**spec, "containers": containers}}
    recorded.change(600, kinds.DEPLOYMENTS, {**web, "spec": {**web["spec"], "template": template}})

    replayed = replay_trace(recorded.save(tmp_path / "t.zst"), options())

    # The nodes of the surge are consolidated afterwards.
    assert replayed.waiting.pods - replayed.evictions == 6
    assert (replayed.pending, replayed.notes) == (0, ())


@pytest.mark.slow
def test_fields_that_a_recorded_deployment_has_no_more_are_removed_in_the_replay(tmp_path: Path) -> None:
    selective = deployment("selective", 1)
    spec = selective["spec"]["template"]["spec"]
    spec |= {"nodeSelector": {"example.com/rack": "a"}}
    spec["containers"][0]["image"] = "selective"
    recorded = Recorded(selective)
    before = replay_trace(recorded.save(tmp_path / "a.zst"), options())
    workload = recorded.find(kinds.DEPLOYMENTS, "selective")
    recorded.change(600, kinds.DEPLOYMENTS, with_template(workload, nodeSelector=None))

    after = replay_trace(recorded.save(tmp_path / "b.zst"), options())

    assert (before.pending, after.pending) == (1, 0)
    assert after.notes == ()


@pytest.mark.slow
def test_a_deployment_that_was_paused_at_the_start_is_rolled_out_in_the_replay(tmp_path: Path) -> None:
    web = deployment("web", 6)
    web["spec"] |= {"paused": True}
    web["spec"]["template"]["spec"]["containers"][0]["image"] = "web"
    recorded = Recorded(web)
    workload = recorded.find(kinds.DEPLOYMENTS, "web")
    recorded.change(600, kinds.DEPLOYMENTS, with_template(workload, priority=7))

    replayed = replay_trace(recorded.save(tmp_path / "t.zst"), options())

    assert replayed.waiting.pods - replayed.evictions == 6


@pytest.mark.slow
def test_a_change_of_labels_alone_does_not_roll_out_a_recorded_deployment(tmp_path: Path) -> None:
    recorded = Recorded()
    web = recorded.find(kinds.DEPLOYMENTS, "web")
    labelled = {**web, "metadata": {**web["metadata"], "labels": {"team": "shop"}}}
    recorded.change(600, kinds.DEPLOYMENTS, labelled)

    replayed = replay_trace(recorded.save(tmp_path / "t.zst"), options())

    assert replayed.waiting.pods == 0


@pytest.mark.slow
@pytest.mark.parametrize("empty", [False, True])
def test_a_pod_of_a_job_that_ran_at_the_start_ends_when_the_trace_says(tmp_path: Path, empty: bool) -> None:
    recorded = Recorded(running_job())
    pod = recorded.find(kinds.PODS, "nightly")
    done = {**pod, "status": {**pod["status"], "phase": "Succeeded"}}
    recorded.change(3600, kinds.PODS, done)

    replayed = replay_trace(recorded.save(tmp_path / "t.zst"), options(empty=empty))

    (first, *_, last) = replayed.samples
    fewer = next(sample.at for sample in replayed.samples if sample.nodes < first.nodes)
    assert last.nodes == first.nodes - 1
    assert 3600 < fewer < 4200
    assert replayed.notes == ()


@pytest.mark.slow
def test_a_bare_pod_that_ran_at_the_start_ends_if_the_replay_begins_without_nodes(tmp_path: Path) -> None:
    recorded = Recorded(bare_pod())
    recorded.delete(3600, kinds.PODS, recorded.find(kinds.PODS, "training"))

    replayed = replay_trace(recorded.save(tmp_path / "t.zst"), options(empty=True))

    assert replayed.samples[-1].nodes < replayed.samples[0].nodes


@pytest.mark.slow
def test_an_interrupted_pod_of_a_recorded_job_starts_again(tmp_path: Path) -> None:
    trace = Recorded(running_job()).save(tmp_path / "t.zst")
    interruption = Interruption(t=600, count=100)
    interrupted = msgspec.structs.replace(trace, events=(*trace.events, interruption))

    replayed = replay_trace(interrupted, options())

    assert replayed.waiting.pods == 7
    assert replayed.pending == 0
