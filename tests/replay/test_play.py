"""Replay of a trace: what it costs, which pods are evicted, how long pods wait."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from dovetail.errors import DovetailError
from dovetail.model.settings import ConsolidationSettings, ControllerSettings
from dovetail.replay.play import replay_trace
from dovetail.trace.model import CapacityError, Delete, Gap, Initial, Interruption, Object, Scale, Set, Tasks
from dovetail.trace.reader import Trace
from tests.replay.traces import HEADER, a_trace, deployment, nodepool, options, task_template


def test_demand_of_the_first_instant_has_its_nodes_when_time_begins() -> None:
    trace = a_trace(Set(t=0, object=deployment("web", 3)))

    replay = replay_trace(trace, options())

    assert (replay.launched, replay.evictions, replay.pending) == (0, 0, 0)
    assert replay.node_hours == pytest.approx(replay.average_nodes)
    assert replay.cost == pytest.approx(sum(interval.cost for interval in replay.intervals), abs=0.01)
    assert replay.cost > 0
    assert any("begins with the nodes" in text for text in replay.assumptions)


def test_a_scale_up_launches_nodes_and_its_pods_wait_for_them() -> None:
    trace = a_trace(
        Set(t=0, object=deployment("web", 1)),
        Scale(t=600, kind="Deployment", namespace="shop", name="web", replicas=12),
    )

    replay = replay_trace(trace, options())

    assert replay.launched >= 3
    assert replay.waiting.pods == 11
    assert 20 < replay.waiting.p50 <= replay.waiting.p95 <= replay.waiting.worst < 300
    assert replay.peak_nodes > 1
    assert sum(interval.launched for interval in replay.intervals) == replay.launched


@pytest.mark.parametrize(("seconds", "count", "minutes"), [(21, 1, 1), (1500, 13, 2), (5400, 18, 5)])
def test_the_time_is_split_into_intervals_of_a_round_length(seconds: int, count: int, minutes: int) -> None:
    trace = a_trace(Set(t=0, object=deployment("web", 1)), seconds=seconds)

    replay = replay_trace(trace, options())

    assert [interval.at for interval in replay.intervals] == [60 * minutes * at for at in range(count)]
    assert replay.cost == pytest.approx(sum(interval.cost for interval in replay.intervals), abs=0.01)


def test_a_scale_down_and_a_deletion_remove_nodes() -> None:
    trace = a_trace(
        Set(t=0, object=deployment("web", 12)),
        Set(t=0, object=deployment("api", 12)),
        Scale(t=60, kind="Deployment", namespace="shop", name="web", replicas=1),
        Delete(t=120, kind="Deployment", namespace="shop", name="api"),
    )

    replay = replay_trace(trace, options())

    assert replay.samples[-1].nodes < replay.samples[0].nodes / 3
    assert sum(replay.terminated.values()) >= 4


def test_tasks_run_for_their_time_and_are_gone_afterwards() -> None:
    trace = a_trace(
        Set(t=0, object=deployment("web", 1)),
        task_template("t"),
        Tasks(t=600, template="t", count=5, seconds=300),
        seconds=7200,
    )

    replay = replay_trace(trace, options())

    assert replay.waiting.pods == 5
    assert replay.peak_nodes >= 5
    assert replay.samples[-1].nodes <= 2
    # Five nodes for some five minutes and their start, one for two hours.
    assert 2 + 5 * 300 / 3600 < replay.node_hours < 2 + 5 * 1500 / 3600


def test_an_interrupted_task_of_a_job_starts_again_and_a_bare_pod_does_not() -> None:
    def replay_with(owner: str) -> tuple[int, float]:
        trace = a_trace(
            task_template("t", owner=owner),
            Tasks(t=0, template="t", seconds=3600),
            Interruption(t=1200, count=1),
            seconds=7200,
        )
        replay = replay_trace(trace, options(change_pool=lambda _: nodepool("default", "spot")))
        return replay.evictions + replay.killed, replay.node_hours

    lost, job_hours = replay_with("Job")
    lost_pod, pod_hours = replay_with("Pod")

    assert (lost, lost_pod) == (1, 1)
    assert job_hours > pod_hours + 0.5


def test_an_interruption_of_a_type_that_is_not_there_hits_another_spot_instance() -> None:
    trace = a_trace(
        Set(t=0, object=deployment("web", 6)), Interruption(t=600, instance_type="x1e.32xlarge", count=1)
    )

    replay = replay_trace(trace, options())

    assert replay.evictions_by_reason == {"Interrupted": replay.evictions}
    assert replay.evictions + replay.killed > 0


def test_without_capacity_pods_are_unschedulable() -> None:
    trace = a_trace(
        CapacityError(t=0, seconds=1_000_000), Set(t=60, object=deployment("web", 2)), seconds=900
    )

    replay = replay_trace(trace, options())

    assert (replay.unschedulable, replay.pending, replay.cost) == (2, 2, 0)


def test_nodepools_of_files_replace_those_of_the_trace() -> None:
    trace = a_trace(Set(t=0, object=deployment("web", 3)))

    spot = replay_trace(trace, options())
    on_demand = replay_trace(trace, options(manifests=(nodepool("other", "on-demand"),)))

    assert on_demand.cost > 1.5 * spot.cost


def test_settings_of_the_controller_are_used() -> None:
    trace = a_trace(
        Set(t=0, object=deployment("web", 12)),
        Scale(t=60, kind="Deployment", namespace="shop", name="web", replicas=7),
    )
    frugal = ControllerSettings(consolidation=ConsolidationSettings(min_saving=1000))

    assert replay_trace(trace, options()).evictions > 0
    assert replay_trace(trace, options(settings=frugal)).evictions == 0


def test_equal_replays_are_equal_and_a_limit_cuts_them() -> None:
    trace = a_trace(
        Set(t=0, object=deployment("web", 5)),
        task_template("t"),
        Tasks(t=300, template="t", count=4, seconds=200),
        Interruption(t=900, share=0.5),
        Gap(t=1000, seconds=100),
    )

    replay = replay_trace(trace, options())

    assert replay_trace(trace, options()) == replay
    assert any("recorder was away" in text for text in replay.assumptions)
    short = replay_trace(trace, options(limit=timedelta(minutes=10)))
    assert (short.seconds, short.evictions) == (600, 0)


def test_objects_that_the_cluster_refuses_are_noted_with_an_example() -> None:
    trace = a_trace(
        Set(t=0, object={"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}),
        Set(t=0, object={"apiVersion": "argo/v1", "kind": "Workflow", "metadata": {"name": "y"}}),
        Scale(t=60, kind="Deployment", namespace="shop", name="nowhere", replicas=7),
    )

    notes = replay_trace(trace, options()).notes

    assert [note.partition(":")[0] for note in notes] == [
        "Events about objects that do not exist",
        "Objects of kinds that have no effect on nodes",
        "Objects that the API server refused",
    ]


def test_a_trace_without_a_nodepool_says_how_to_name_one() -> None:
    trace = Trace(header=HEADER, events=(Set(t=0, object=deployment("web", 1)),), seconds=60)

    with pytest.raises(DovetailError, match="no NodePool; name files with NodePools: -f"):
        replay_trace(trace, options())


def test_a_nodepool_without_its_node_class_is_an_error_that_names_both() -> None:
    trace = Trace(header=HEADER, events=(Set(t=0, object=nodepool("batch")),), seconds=60)

    with pytest.raises(DovetailError, match=r"NodePool batch .* EC2NodeClass default; name a file with it"):
        replay_trace(trace, options())


def test_a_nodepool_of_another_provider_is_an_error_that_names_its_node_class() -> None:
    trace = a_trace(Set(t=0, object=deployment("web", 1)), seconds=60)

    # The EC2NodeClass of the same name does not help.
    with pytest.raises(DovetailError, match=r"NodeClass default of eks\.amazonaws\.com, .* not simulated"):
        replay_trace(trace, options(manifests=(auto_mode_nodepool(),)))


def test_recorded_nodes_are_replayed_without_a_nodepool_that_can_launch_others() -> None:
    trace = a_trace(*_record_cluster(), seconds=600)
    recorded = replay_trace(trace, options())

    replay = replay_trace(trace, options(manifests=(auto_mode_nodepool(),)))

    assert replay.cost == recorded.cost
    assert replay.notes == (
        "NodePool default launches no nodes: it refers to NodeClass default of eks.amazonaws.com, "
        "which is not simulated.",
    )


def auto_mode_nodepool() -> Object:
    pool = nodepool()
    ref = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}
    pool["spec"]["template"]["spec"]["nodeClassRef"] = ref
    return pool


def test_one_of_two_nodepools_without_its_node_class_is_noted() -> None:
    lost = nodepool("lost")
    lost["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "gone"

    replay = replay_trace(a_trace(Set(t=0, object=lost), seconds=60), options())

    assert replay.notes == (
        "NodePool lost launches no nodes: neither the trace nor the files have EC2NodeClass gone.",
    )


def test_a_recorded_cluster_begins_with_its_nodes_or_without_them() -> None:
    recorded = _record_cluster()
    trace = a_trace(*recorded, seconds=1800)

    as_recorded = replay_trace(trace, options())
    empty = replay_trace(trace, options(empty=True))

    assert (as_recorded.launched, as_recorded.evictions) == (0, 0)
    assert as_recorded.samples[0].nodes == empty.samples[0].nodes
    assert not any("begins with the nodes" in text for text in as_recorded.assumptions)
    assert any("begins with the nodes" in text for text in empty.assumptions)


OPERATOR = {"apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka", "name": "broker", "controller": True}


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet"])
def test_workloads_of_operators_are_demand_without_the_recorded_nodes(kind: str) -> None:
    recorded = _record_cluster()
    if kind == "ReplicaSet":
        recorded = [event for event in recorded if event.object["kind"] != "Deployment"]

    free, of_operator = (
        replay_trace(a_trace(*_own(recorded, kind, *owners), seconds=1800), options(empty=True))
        for owners in ([], [OPERATOR])
    )

    assert free.cost > 0
    assert of_operator == free


def test_pods_of_a_deployment_are_demand_once_in_a_trace_without_replica_sets() -> None:
    recorded = _record_cluster()
    without = [event for event in recorded if event.object["kind"] != "ReplicaSet"]

    complete, partial = (
        replay_trace(a_trace(*events, seconds=1800), options(empty=True)) for events in (recorded, without)
    )

    assert complete.cost > 0
    assert partial == complete


def _own(events: list[Initial], kind: str, *owners: dict[str, Any]) -> list[Initial]:
    def change(obj: Object) -> Object:
        return {**obj, "metadata": {**obj["metadata"], "ownerReferences": list(owners)}}

    return [
        replace(event, object=change(event.object)) if event.object["kind"] == kind else event
        for event in events
    ]


def test_a_file_replaces_a_recorded_deployment_with_its_replica_sets() -> None:
    trace = a_trace(*_record_cluster(), seconds=1800)

    replay = replay_trace(trace, options(empty=True, manifests=(deployment("web", 0),)))

    assert (replay.peak_nodes, replay.pending) == (0, 0)


def _record_cluster() -> list[Initial]:
    """Return the objects of a small cluster at rest."""
    from dovetail.dump.strip import strip_objects
    from dovetail.operator.cluster_objects import READ
    from dovetail.simulator.apiserver.storage.frozen_object import thaw
    from dovetail.simulator.cluster import SimulatedCluster
    from tests.replay.traces import START, node_class

    cluster = SimulatedCluster.from_snapshot(
        (), now=START - timedelta(hours=2), catalog=options().catalog, prices=options().prices
    )
    cluster.apply([node_class(), nodepool()])
    web = deployment("web", 6)
    web["spec"]["template"]["spec"]["containers"][0]["image"] = "web"
    cluster.apply([web])
    cluster.clock.run(until=START)
    objects = [thaw(obj) for resource in READ for obj in cluster.api.list(resource).items]
    return [Initial(t=0, object=obj) for obj in strip_objects(objects)]
