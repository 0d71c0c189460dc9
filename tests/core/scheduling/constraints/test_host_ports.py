"""Host ports."""

import pytest

from dovetail.model.kube.pod import HostPort
from dovetail.model.settings import Packing, SchedulingSettings
from tests.support.scheduling.builders import a_node, a_pod, cluster
from tests.support.scheduling.plans import node_of, pods_per_node, unplaced
from tests.support.scheduling.solver import checked as solve

BOTH = pytest.mark.parametrize("packing", list(Packing))


@BOTH
def test_s51_pods_with_the_same_port_get_different_nodes(packing: Packing) -> None:
    some = [a_pod(f"p{i}", ports=[8080]) for i in range(3)]

    plan = solve(cluster(some), SchedulingSettings(packing=packing))

    assert pods_per_node(plan) == [1, 1, 1]


@BOTH
def test_s51_pods_with_other_ports_fill_the_same_nodes(packing: Packing) -> None:
    some = [a_pod(f"p{i}", ports=[8080 + i]) for i in range(3)]

    plan = solve(cluster(some), SchedulingSettings(packing=packing))

    assert pods_per_node(plan) == [3]


@BOTH
@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (HostPort(80, ip="10.0.0.1"), HostPort(80, ip="10.0.0.2"), True),
        (HostPort(80, "TCP"), HostPort(80, "UDP"), True),
        (HostPort(80, ip="10.0.0.1"), HostPort(80), False),
        (HostPort(80, ip="::"), HostPort(80, ip="10.0.0.1"), False),
    ],
)
def test_s51_address_and_protocol_decide_whether_ports_conflict(
    first: HostPort, second: HostPort, together: bool, packing: Packing
) -> None:
    snapshot = cluster([a_pod("a", ports=[first]), a_pod("b", ports=[second])])

    plan = solve(snapshot, SchedulingSettings(packing=packing))

    assert unplaced(plan) == []
    assert (node_of(plan, "a") == node_of(plan, "b")) is together


def test_s51_a_port_taken_on_an_existing_node_is_taken() -> None:
    node = a_node("n", pods=[a_pod("running", ports=[8080])])

    plan = solve(cluster([a_pod("p", ports=[8080]), a_pod("q", ports=[9090])], nodes=[node]))

    assert node_of(plan, "p") != "n"
    assert node_of(plan, "q") == "n"


@BOTH
def test_a_pod_with_several_ports_conflicts_on_any_of_them(packing: Packing) -> None:
    snapshot = cluster(
        [
            a_pod("a", cpu="300m", ports=[80, 443]),
            a_pod("b", cpu="200m", ports=[443, 8443]),
            a_pod("c", cpu="100m", ports=[8443]),
        ]
    )

    plan = solve(snapshot, SchedulingSettings(packing=packing))

    assert node_of(plan, "a") != node_of(plan, "b")
    assert node_of(plan, "c") != node_of(plan, "b")
    assert len(plan.nodes) == 2
