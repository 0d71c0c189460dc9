"""Estimates of consolidation: domains that required spreads leave to pods."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.disruption.consolidation.estimate import Estimate, Estimator, find_open_domains
from dovetail.core.disruption.simulation import SchedulingSimulation
from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod
from dovetail.model.node import Node
from tests.support.disruption.consolidation import a_pool_node, context_of
from tests.support.scheduling.builders import a_pod, a_pool, cluster, pods, zone_spread
from tests.support.scheduling.instance_types import Z1, Z2, incremental

TYPES = incremental(8)
POOL = a_pool(requirements=[(label_keys.ZONE, "In", [Z1, Z2])])
WEB = {"app": "web"}


def web_pods(count: int, prefix: str, **more: object) -> list[Pod]:
    return pods(count, prefix, cpu=1, labels=WEB, spreads=[zone_spread(WEB, **more)])


def estimate_without(name: str, *nodes: Node) -> Estimate:
    simulation = SchedulingSimulation(context_of(cluster((), [POOL], TYPES, nodes=nodes)))
    return Estimator(simulation).estimate([simulation.node_indexes[name]], with_spreads=True)


def test_pods_return_to_their_zone_if_the_others_have_as_many_already() -> None:
    room_elsewhere = a_pool_node("b", TYPES[7], web_pods(1, "b"), zone=Z2)

    estimate = estimate_without("a", a_pool_node("a", TYPES[1], web_pods(1, "a")), room_elsewhere)

    assert estimate.price > 0


def test_pods_go_to_another_zone_that_has_fewer() -> None:
    other = a_pool_node("c", TYPES[0], web_pods(1, "c"))
    room_elsewhere = a_pool_node("b", TYPES[7], web_pods(1, "b"), zone=Z2)

    estimate = estimate_without("a", a_pool_node("a", TYPES[1], web_pods(1, "a")), other, room_elsewhere)

    assert estimate.price == 0


@pytest.mark.parametrize("more", [{"required": False}, {"min_domains": 2}])
def test_spread_that_may_allow_more_limits_no_zone(more: dict[str, object]) -> None:
    room_elsewhere = a_pool_node("b", TYPES[7], web_pods(1, "b", **more), zone=Z2)

    estimate = estimate_without("a", a_pool_node("a", TYPES[1], web_pods(1, "a", **more)), room_elsewhere)

    assert estimate.price == 0


def test_other_pods_that_the_spread_counts_may_fill_a_zone_first() -> None:
    counted = a_pod("other", cpu=1, labels=WEB)
    in_zone = a_pool_node("c", TYPES[0], web_pods(1, "c"))
    room_elsewhere = a_pool_node("b", TYPES[7], web_pods(2, "b"), zone=Z2)

    estimate = estimate_without(
        "a", a_pool_node("a", TYPES[3], [*web_pods(1, "a"), counted]), in_zone, room_elsewhere
    )

    assert estimate.price == 0


counts_by_domain = st.lists(st.integers(0, 4), min_size=1, max_size=4).map(
    lambda counts: {f"zone-{number}": count for number, count in enumerate(counts)}
)


@given(counts_by_domain, st.integers(1, 3), st.integers(1, 4))
def test_open_domains_are_those_that_some_order_of_placement_reaches(
    counts: dict[str, int], max_skew: int, leaving: int
) -> None:
    counts["zone-0"] += leaving

    opened = find_open_domains(counts, max_skew, "zone-0", leaving)

    left = {**counts, "zone-0": counts["zone-0"] - leaving}
    assert opened == reachable_domains(left, max_skew, leaving) | {"zone-0"}


def reachable_domains(counts: dict[str, int], max_skew: int, unplaced: int) -> set[str]:
    """Return the domains that receive a pod in any order, as kube-scheduler checks each."""
    if not unplaced:
        return set()
    least, reached = min(counts.values()), set[str]()
    for domain, count in counts.items():
        if count + 1 - least <= max_skew:
            placed = {**counts, domain: count + 1}
            reached |= {domain} | reachable_domains(placed, max_skew, unplaced - 1)
    return reached
