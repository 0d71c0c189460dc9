"""A budget that cannot be read closes its pool, and people are told."""

from typing import Any

import pytest

from dovetail.controllers.nodepool import budgets, validation
from dovetail.ports.api_resources import NODE_POOLS
from tests.support import wire
from tests.support.world import World, condition

WRONG = {"nodes": "1", "schedule": "61 * * * *", "duration": "1h"}
RIGHT = {"nodes": "1", "schedule": "0 9 * * *", "duration": "1h"}


def a_world(budget: dict[str, Any]) -> World:
    world = World().run(budgets.registration, validation.registration)
    world.add(NODE_POOLS, wire.pool())
    write(world, budget)
    return world


def write(world: World, budget: dict[str, Any]) -> None:
    world.patch(NODE_POOLS, "default", {"spec": {"disruption": {"budgets": [budget]}}})


def test_a_budget_with_a_wrong_schedule_is_told_in_a_condition_and_an_event() -> None:
    world = a_world(WRONG)

    found = world.pool().conditions["DisruptionBudgetsValid"]
    assert (found.status, found.reason) == ("False", "InvalidDisruptionBudget")
    assert "budgets[0]: '61' is not within 0-59" in found.message
    assert world.events.about("default") == ["InvalidDisruptionBudget"]


def test_a_pool_with_a_wrong_budget_can_still_buy() -> None:
    world = a_world(WRONG)

    assert condition(world.pool().conditions, "ValidationSucceeded")[0] == "True"


@pytest.mark.parametrize("budget", [RIGHT, {"nodes": "10%"}, {"nodes": "0"}])
def test_nothing_is_said_of_budgets_that_can_be_read(budget: dict[str, Any]) -> None:
    world = a_world(budget)

    assert "DisruptionBudgetsValid" not in world.pool().conditions
    assert world.events.about("default") == []


def test_a_budget_that_was_put_right_is_not_spoken_of_any_more() -> None:
    world = a_world(WRONG)

    write(world, RIGHT)

    assert "DisruptionBudgetsValid" not in world.pool().conditions


def test_a_second_pass_changes_nothing() -> None:
    world = a_world(WRONG)
    before = world.versions()

    world.runtime.ask("nodepool.budgets", "default")
    world.wait(0)

    assert world.versions() == before
    assert world.events.about("default") == ["InvalidDisruptionBudget"]
