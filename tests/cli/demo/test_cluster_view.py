"""The live view of a cluster while nodes are launched and terminated."""

from collections import defaultdict
from datetime import timedelta

from dovetail.cli.demo.cluster_view import ClusterView, InstanceState
from dovetail.cli.demo.object_view import PodState
from dovetail.simulator.scenario_runner import ScenarioRunner
from tests.cli.demos import build_cluster, bundled


def test_instance_is_shown_from_claim_to_termination_in_one_place() -> None:
    scenario = bundled("inflate")
    cluster = build_cluster(scenario)
    cluster_view = ClusterView(cluster)
    states = defaultdict[int, list[InstanceState]](list)

    for _ in ScenarioRunner(cluster, scenario).steps(every=timedelta(seconds=0.2)):
        cluster_view.poll()
        for place, instance in enumerate(cluster_view.instances()):
            if not states[place] or states[place][-1] is not instance.state:
                states[place].append(instance.state)

    life = [InstanceState.PENDING, InstanceState.BOOTING, InstanceState.READY, InstanceState.DRAINING]
    assert states[0] == [InstanceState.READY]
    assert [states[place] for place in range(1, cluster_view.max_instances)] == [life] * (
        cluster_view.max_instances - 1
    )


def test_pods_are_pending_then_starting_then_running() -> None:
    scenario = bundled("inflate")
    cluster = build_cluster(scenario)
    cluster_view = ClusterView(cluster)
    seen: list[PodState] = []

    def record(_: object = None) -> None:
        cluster_view.poll()
        placed = [pod.state for instance in cluster_view.instances()[1:] for pod in instance.pods]
        states = (*(pod.state for pod in cluster_view.pending()), *placed)
        seen.extend(state for state in dict.fromkeys(states) if state not in seen)

    runner = ScenarioRunner(cluster, scenario)
    runner.listeners.append(record)
    for _ in runner.steps(every=timedelta(seconds=0.2)):
        record()

    assert seen[:3] == [PodState.WAITING, PodState.STARTING, PodState.RUNNING]
    assert list(cluster_view.workloads) == ["inflate"]


def test_heartbeats_do_not_change_the_view() -> None:
    scenario = bundled("inflate")
    cluster = build_cluster(scenario)
    cluster_view = ClusterView(cluster)
    cluster_view.poll()

    cluster.clock.run(until=cluster.clock.now() + timedelta(minutes=30))

    assert cluster_view.poll() is False


def test_view_does_not_change_the_scenario() -> None:
    scenario = bundled("inflate")
    watched, alone = build_cluster(scenario), build_cluster(scenario)
    cluster_view = ClusterView(watched)
    steps = ScenarioRunner(watched, scenario).steps(every=timedelta(seconds=0.2))

    try:
        while True:
            next(steps)
            cluster_view.poll()
            cluster_view.instances()
    except StopIteration as stop:
        report = stop.value

    assert report == ScenarioRunner(alone, scenario).run()
