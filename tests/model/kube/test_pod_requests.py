"""Total requests of a pod: P39 to P46."""

from hypothesis import given
from hypothesis import strategies as st

from dovetail.model.kube.pod_requests import Container, compute_pod_requests
from dovetail.model.kube.resources import NO_RESOURCES, Resources


def needs(cpu: str, memory: str) -> Resources:
    return Resources.parse({"cpu": cpu, "memory": memory})


def container(cpu: str, memory: str) -> Container:
    return Container(requests=needs(cpu, memory))


def sidecar(cpu: str, memory: str) -> Container:
    return Container(requests=needs(cpu, memory), is_sidecar=True)


def spelled(resources: Resources) -> tuple[str, str]:
    written = resources.to_quantities()
    return written["cpu"], written["memory"]


def test_p39_an_init_container_before_the_sidecar_does_not_run_beside_it() -> None:
    total = compute_pod_requests([container("6", "2Gi")], [container("10", "4Gi"), sidecar("4.9", "2.9Gi")])

    assert total["cpu"] == 10_900
    assert total["memory"] == needs("0", "4.9Gi")["memory"]


def test_p40_a_small_init_container_after_the_sidecar_changes_nothing() -> None:
    total = compute_pod_requests([container("6", "2Gi")], [sidecar("4.9", "2.9Gi"), container("5", "1Gi")])

    assert total["cpu"] == 10_900
    assert total["memory"] == needs("0", "4.9Gi")["memory"]


def test_p41_an_init_container_after_the_sidecar_runs_beside_it() -> None:
    total = compute_pod_requests([container("5", "1Gi")], [sidecar("4.9", "2.9Gi"), container("6", "2Gi")])

    assert total["cpu"] == 10_900
    assert total["memory"] == needs("0", "4.9Gi")["memory"]


def test_p42_pod_level_requests_replace_the_sum_of_their_resources() -> None:
    pod_level = Resources.parse({"cpu": "9.9", "memory": "3.9Gi", "nvidia.com/gpu": 9})
    inside = Container(requests=needs("20", "20Gi") + Resources.parse({"nvidia.com/gpu": 1}))

    total = compute_pod_requests([inside], pod_level=pod_level)

    assert total["cpu"] == 9_900
    assert total["memory"] == needs("0", "3.9Gi")["memory"]
    assert total["nvidia.com/gpu"] == 1  # Only cpu, memory and huge pages exist at pod level.


def test_p42_a_resource_without_pod_level_request_stays_the_sum() -> None:
    total = compute_pod_requests(
        [container("1", "1Gi"), container("1", "1Gi")], pod_level=Resources({"cpu": 5000})
    )

    assert spelled(total) == ("5", "2Gi")


def test_p43_overhead_is_added_to_the_largest_stage() -> None:
    total = compute_pod_requests(
        [container("2", "1Gi")], [container("4", "2Gi"), sidecar("3", "3Gi")], overhead=needs("5", "1Gi")
    )

    assert spelled(total) == ("10", "5Gi")


def test_p44_a_large_init_container_beside_a_sidecar_decides() -> None:
    total = compute_pod_requests([container("2", "1Gi")], [sidecar("4", "2Gi"), container("10", "2Gi")])

    assert spelled(total) == ("14", "4Gi")


def test_p44_the_running_containers_decide_when_the_init_container_is_small() -> None:
    total = compute_pod_requests([container("2", "2Gi")], [sidecar("4", "2Gi"), container("1", "1Gi")])

    assert spelled(total) == ("6", "4Gi")


def test_p45_runtime_class_overhead_is_included() -> None:
    total = compute_pod_requests([container("1", "1Gi")], overhead=needs("2", "1Gi"))

    assert spelled(total) == ("3", "2Gi")


def test_p46_the_larger_of_requested_and_allocated_counts_during_a_resize() -> None:
    grown = Container(requests=needs("1", "1Gi"), allocated=needs("2", "512Mi"))

    assert spelled(compute_pod_requests([grown])) == ("2", "1Gi")


def test_p46_without_a_status_the_spec_counts() -> None:
    assert spelled(compute_pod_requests([container("1", "1Gi")])) == ("1", "1Gi")


def test_s20_the_largest_init_container_counts_not_their_sum() -> None:
    total = compute_pod_requests([container("1", "1Gi")], [container("3", "1Gi"), container("2", "4Gi")])

    assert spelled(total) == ("3", "4Gi")


containers_of_any_size = st.builds(
    Container,
    requests=st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 9)).map(Resources),
    is_sidecar=st.booleans(),
)


@given(main=st.lists(containers_of_any_size, max_size=3), before=st.lists(containers_of_any_size, max_size=4))
def test_no_moment_of_a_pods_life_needs_more_than_it_requests(
    main: list[Container], before: list[Container]
) -> None:
    moments = [
        [*(container for container in before[:index] if container.is_sidecar), starting]
        for index, starting in enumerate(before)
    ]
    moments.append([*(container for container in before if container.is_sidecar), *main])

    requested = compute_pod_requests(main, before)

    for name in ("cpu", "memory"):
        busiest = max(sum(container.requests.get(name, 0) for container in moment) for moment in moments)
        assert requested.get(name, 0) == busiest


def test_every_pod_requests_one_unit_of_pods() -> None:
    assert compute_pod_requests([]) == {"pods": 1}
    assert compute_pod_requests([container("1", "1Gi")])["pods"] == 1


def test_p60_missing_requests_are_filled_from_limits() -> None:
    limited = Container(requests=Resources({"cpu": 100}), limits=needs("1", "1Gi"))

    assert spelled(limited.with_default_requests().requests) == ("100m", "1Gi")
    assert limited.requests == {"cpu": 100}


def test_a_container_without_requests_adds_nothing() -> None:
    assert Container().effective_requests() == NO_RESOURCES
