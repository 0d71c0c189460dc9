"""Unhealthy conditions of nodes."""

from datetime import timedelta

from dovetail.core.node.health import UnhealthyCondition, exceeds_unhealthy_share, find_unhealthy_condition
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.conditions import FALSE, TRUE, Condition, Conditions
from tests.support.simulator.api_server import START


def conditions(**statuses: str) -> Conditions:
    return FrozenDict(
        {name: Condition(status=status, last_transition_time=START) for name, status in statuses.items()}
    )


def test_a_node_with_good_other_or_undated_conditions_is_healthy() -> None:
    undated = FrozenDict({"Ready": Condition(status=FALSE)})

    assert find_unhealthy_condition(conditions(Ready=TRUE, DiskPressure=FALSE)) is None
    assert find_unhealthy_condition(undated) is None
    assert find_unhealthy_condition(FrozenDict()) is None


def test_the_condition_that_is_tolerated_shortest_decides() -> None:
    unhealthy = find_unhealthy_condition(conditions(Ready=FALSE, AcceleratedHardwareReady=FALSE))

    assert unhealthy == UnhealthyCondition("AcceleratedHardwareReady", START + timedelta(minutes=10))


def test_repair_stops_above_a_fifth_of_unhealthy_nodes_rounded_up() -> None:
    assert [exceeds_unhealthy_share(unhealthy, 10) for unhealthy in (2, 3)] == [False, True]
    assert [exceeds_unhealthy_share(unhealthy, 1) for unhealthy in (1, 2)] == [False, True]
