"""Latencies of a fork come from the cluster, with defaults where it says nothing."""

from datetime import datetime, timedelta

from dovetail.simulator.fork.report import CalibratedLatency
from dovetail.simulator.latencies import CloudLatencies, KubeletLatencies
from tests.support.simulator.clusters import wait
from tests.support.simulator.recorded import Objects, a_running_cluster, fork, of_kind, record


def shift(time: str, seconds: float) -> str:
    return (datetime.fromisoformat(time) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def set_times(objects: Objects, *, launched: int, registered: int, initialized: int, ready: int) -> None:
    """Set the times of every NodeClaim and pod, in seconds."""
    for claim in of_kind(objects, "NodeClaim"):
        start = claim["metadata"]["creationTimestamp"]
        steps = {
            "Launched": launched,
            "Registered": launched + registered,
            "Initialized": launched + registered + initialized,
        }
        for condition in claim["status"]["conditions"]:
            if condition["type"] in steps:
                condition["lastTransitionTime"] = shift(start, steps[condition["type"]])
    for pod in of_kind(objects, "Pod"):
        conditions = {condition["type"]: condition for condition in pod["status"]["conditions"]}
        scheduled = conditions["PodScheduled"]["lastTransitionTime"]
        conditions["Ready"]["lastTransitionTime"] = shift(scheduled, ready)


def by_name(latencies: tuple[CalibratedLatency, ...]) -> dict[tuple[str, str], tuple[float, int]]:
    return {
        (latency.name, latency.scope): (latency.value.total_seconds(), latency.samples)
        for latency in latencies
    }


def test_latencies_are_the_medians_of_nodeclaims_and_pods() -> None:
    cluster = a_running_cluster(replicas=3)
    objects = record(cluster)
    set_times(objects, launched=2, registered=41, initialized=17, ready=25)

    forked = fork(objects, cluster)

    assert forked.fork is not None
    assert by_name(forked.fork.latencies) == {
        ("launch", ""): (2, 3),
        ("registration", ""): (41, 3),
        ("initialization", ""): (17, 3),
        ("pod start", ""): (25, 3),
        ("pod start", "default/web"): (25, 3),
    }


def test_rebuilt_nodeclaims_are_not_measured() -> None:
    cluster = a_running_cluster(replicas=3)
    objects = [obj for obj in record(cluster) if obj["kind"] != "NodeClaim"]

    forked = fork(objects, cluster)

    assert forked.fork is not None
    samples = {name: count for (name, _), (_, count) in by_name(forked.fork.latencies).items()}
    assert (samples["launch"], samples["registration"], samples["initialization"]) == (0, 0, 0)


def test_new_nodes_and_pods_take_the_calibrated_time() -> None:
    cluster = a_running_cluster(replicas=3)
    objects = record(cluster)
    set_times(objects, launched=2, registered=100, initialized=20, ready=60)
    forked = fork(objects, cluster)
    start = forked.clock.now()

    from dovetail.simulator.scenario_actions import perform
    from tests.support.simulator.clusters import scaled

    perform(scaled(4), forked)
    wait(forked, 400)

    assert forked.recorder.last_start is not None
    elapsed = forked.recorder.last_start.at - start
    assert timedelta(seconds=180) <= elapsed <= timedelta(seconds=200)


def test_defaults_apply_where_nothing_is_known() -> None:
    cluster = a_running_cluster(replicas=1)

    forked = fork(record(cluster), cluster)

    assert forked.fork is not None
    cloud, kubelet = CloudLatencies(), KubeletLatencies()
    assert by_name(forked.fork.latencies) == {
        ("launch", ""): (cloud.create_fleet.total_seconds(), 0),
        ("registration", ""): ((cloud.start + cloud.boot).total_seconds(), 0),
        ("initialization", ""): (kubelet.node_ready.total_seconds(), 0),
        ("pod start", ""): ((kubelet.image_pull + kubelet.container_start).total_seconds(), 0),
    }
    assert forked.ec2.latencies == cloud


def test_pods_that_restarted_and_absurd_times_are_not_measured() -> None:
    cluster = a_running_cluster(replicas=4)
    objects = record(cluster)
    set_times(objects, launched=2, registered=41, initialized=17, ready=25)
    pods = of_kind(objects, "Pod")
    pods[0]["status"]["containerStatuses"][0]["restartCount"] = 3
    of_kind(objects, "NodeClaim")[0]["status"]["conditions"][0]["lastTransitionTime"] = "nonsense"
    for condition in pods[1]["status"]["conditions"]:
        condition["lastTransitionTime"] = "1999-01-01T00:00:00Z" if condition["type"] == "Ready" else "?"

    forked = fork(objects, cluster)

    assert forked.fork is not None
    measured = by_name(forked.fork.latencies)
    assert measured["launch", ""][1] <= 3
    assert measured["pod start", ""] == (2.5, 0)
