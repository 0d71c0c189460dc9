"""Resource requests of pods, and the types that have them."""

import pytest

from dovetail.model.kube.pod import Pod
from dovetail.model.kube.pod_requests import Container, compute_pod_requests
from dovetail.model.kube.resources import NO_RESOURCES, Resources
from dovetail.model.plan import Constraint
from tests.support.scheduling.builders import a_pod, a_spec, cluster
from tests.support.scheduling.instance_types import GPU_A, GPU_B, a_type
from tests.support.scheduling.plans import new_node_of, node_of, reasons, type_names, unplaced
from tests.support.scheduling.solver import checked as solve

GRID = tuple(
    a_type(f"{cpu}x{memory}", cpu=cpu, memory=f"{memory}Gi") for cpu in range(6, 17) for memory in range(3, 8)
)
"""Every size around those of P39 to P44, so that one too small would be noticed."""


def needs(cpu: str, memory: str) -> Resources:
    return Resources.parse({"cpu": cpu, "memory": memory})


def container(cpu: str, memory: str) -> Container:
    return Container(requests=needs(cpu, memory))


def sidecar(cpu: str, memory: str) -> Container:
    return Container(requests=needs(cpu, memory), is_sidecar=True)


def pod_of(
    containers: list[Container],
    before: list[Container],
    overhead: Resources = NO_RESOURCES,
    pod_level: Resources = NO_RESOURCES,
) -> Pod:
    total = compute_pod_requests(containers, before, overhead=overhead, pod_level=pod_level)
    return a_pod("p", spec=a_spec(requests=total))


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(
            pod_of([container("6", "2Gi")], [container("10", "4Gi"), sidecar("4.9", "2.9Gi")]),
            "11x5",
            id="p39",
        ),
        pytest.param(
            pod_of([container("6", "2Gi")], [sidecar("4.9", "2.9Gi"), container("5", "1Gi")]),
            "11x5",
            id="p40",
        ),
        pytest.param(
            pod_of([container("5", "1Gi")], [sidecar("4.9", "2.9Gi"), container("6", "2Gi")]),
            "11x5",
            id="p41",
        ),
        pytest.param(
            pod_of([container("20", "20Gi")], [], pod_level=needs("9.9", "3.9Gi")), "10x4", id="p42"
        ),
        pytest.param(
            # 10 CPU and 5 GiB in sum; the node itself needs a little more.
            pod_of(
                [container("2", "1Gi")],
                [container("4", "2Gi"), sidecar("3", "3Gi")],
                overhead=needs("4.9", "0.9Gi"),
            ),
            "10x5",
            id="p43",
        ),
        pytest.param(
            pod_of([container("2", "1Gi")], [sidecar("4", "2Gi"), container("9.9", "1.9Gi")]),
            "14x4",
            id="p44-init",
        ),
        pytest.param(
            pod_of([container("1.9", "1.9Gi")], [sidecar("4", "2Gi"), container("1", "1Gi")]),
            "6x4",
            id="p44-running",
        ),
    ],
)
def test_p39_to_p44_the_launched_type_holds_the_largest_phase_of_the_pod(pod: Pod, expected: str) -> None:
    plan = solve(cluster([pod], types=GRID))

    assert type_names(plan) == [expected]


def test_p45_overhead_of_the_runtime_class_is_part_of_the_pod() -> None:
    pod = pod_of([container("1", "1Mi")], [], overhead=needs("2", "1Mi"))

    plan = solve(cluster([pod]))

    assert type_names(plan) == ["default"]


def test_p46_what_the_kubelet_has_granted_already_is_held() -> None:
    grown = Container(requests=needs("1", "1Mi"), allocated=needs("3", "1Mi"))

    plan = solve(cluster([a_pod("p", spec=a_spec(requests=compute_pod_requests([grown])))]))

    assert type_names(plan) == ["default"]


def test_p47_huge_pages_leave_less_memory_for_pods() -> None:
    types = [
        a_type("huge", cpu=2, memory="4Gi", more={"hugepages-2Mi": "3Gi"}, price=0.1),
        a_type("plain", cpu=2, memory="4Gi", price=1.0),
    ]

    plan = solve(cluster([a_pod("p", memory="2Gi")], types=types))

    assert type_names(plan) == ["plain"]


def test_p47_a_pod_that_requests_huge_pages_gets_them() -> None:
    types = [a_type("huge", more={"hugepages-2Mi": "1Gi"}, price=9.0), a_type("plain")]

    plan = solve(cluster([a_pod("p", more={"hugepages-2Mi": "512Mi"})], types=types))

    assert type_names(plan) == ["huge"]


# --- S18 to S20 -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "demand", [{"cpu": "17"}, {"memory": "129Gi"}, {"more": {GPU_A: 3}}, {"more": {"x.io/y": 1}}]
)
def test_s18_more_than_any_type_has_leaves_the_pod_pending(demand: dict[str, object]) -> None:
    plan = solve(cluster([a_pod("p", **demand), a_pod("other")]))  # type: ignore[arg-type]

    assert reasons(plan) == {"p": [Constraint.RESOURCES]}


def test_s18_one_pod_cannot_have_two_resources_of_two_types() -> None:
    plan = solve(cluster([a_pod("p", more={GPU_A: 1, GPU_B: 1})]))

    assert unplaced(plan) == ["p"]


def test_s18_two_pods_can_have_two_resources_of_two_types() -> None:
    plan = solve(cluster([a_pod("a", more={GPU_A: 1}), a_pod("b", more={GPU_B: 1})]))

    assert new_node_of(plan, "a").instance_type.name == "gpu-a"
    assert new_node_of(plan, "b").instance_type.name == "gpu-b"


def test_two_pods_share_the_devices_of_one_node() -> None:
    plan = solve(cluster([a_pod(f"p{i}", more={GPU_A: 1}) for i in range(2)]))

    assert type_names(plan) == ["gpu-a"]
    assert node_of(plan, "p0") == node_of(plan, "p1")


def test_s19_zero_of_an_unknown_resource_is_no_requirement() -> None:
    plan = solve(cluster([a_pod("p", more={"foo.com/unknown": 0})]))

    assert type_names(plan) == ["small"]


def test_s20_an_init_container_decides_the_size_of_the_node() -> None:
    plan = solve(cluster([pod_of([container("1", "1Gi")], [container("1", "3Gi")])]))

    assert type_names(plan) == ["default"]


def test_s20_an_init_container_can_be_too_large_for_every_node() -> None:
    plan = solve(cluster([pod_of([container("1", "1Gi")], [container("1", "10Ti")])]))

    assert unplaced(plan) == ["p"]


@pytest.mark.parametrize("absurd", ["8E", "9223372036854775807", "1e30"])
def test_an_absurd_request_is_unschedulable_and_affects_no_other_pod(absurd: str) -> None:
    pods = [a_pod(f"mad-{i}", memory=absurd) for i in range(3)]

    plan = solve(cluster([*pods, a_pod("sane")]))

    assert unplaced(plan) == ["mad-0", "mad-1", "mad-2"]
    assert node_of(plan, "sane") is not None


def test_an_absurd_number_of_cores_is_unschedulable_too() -> None:
    plan = solve(cluster([a_pod("mad", cpu="9E"), a_pod("sane")]))

    assert unplaced(plan) == ["mad"]
